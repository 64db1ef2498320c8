"""Who may take part: passes, the policy that decides on them, renewals, and what the organizer has decided."""
