"""What lies where in the coordinator's state folder."""

AUTHORITY = "authority.key"  # signs passes; where it is the run has given some
CHECKPOINTS = "checkpoints"
LEDGER = "ledger.db"  # unless the run file says otherwise
LOG = "log"  # of updates, with states to begin from
URL = "url.txt"  # where the HTTP service is
UNNAMED = "unnamed.txt"  # a user in each line who does not want to be named in model cards
