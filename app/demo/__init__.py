"""`sahaj demo`: a whole collaboration on one machine."""
