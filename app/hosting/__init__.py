"""`sahaj host-experts`: a peer that computes experts for the trainers of a run."""
