"""Who may take part: the authority that signs passes, the rules, renewals, and what the organizer announces."""
