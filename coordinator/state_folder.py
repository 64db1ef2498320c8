"""Names of the files in the coordinator's state folder."""

ADDRESSES = "addresses.txt"  # multiaddresses of the coordinator
ADMIN_KEY = "admin.key"  # bearer token of the organizer's orders
AUTHORITY = "authority.key"  # signs passes and notices
CERTIFICATES = "https"  # the certificate with its key, and the account at the authority
CHECKPOINTS = "checkpoints"
EVIDENCE = "evidence"  # of what audits have proved
EXPERTS = "experts"  # states of the experts of volunteers, if the run has any
IDENTITY = "identity.key"  # of the coordinator's peer; exists once a run was opened from the folder
LEDGER = "ledger.db"  # unless the run file names another database
LOG = "log"  # updates, and snapshots to replay them from
NOTICES = "notices.json"  # what the organizer has decided
PAUSES = "pauses.json"  # machines that their persons have ordered to pause
PEERS = "peers.json"  # some peers, to find the swarm by after a restart
REVOKED_KEYS = "revoked-keys.json"  # personal keys that are good no longer
UNNAMED = "unnamed.txt"  # users who do not want to be named in model cards, one in a line
URL = "url.txt"  # of the HTTP service
