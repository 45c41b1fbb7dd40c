"""What users decide about, and what limits, the data that leaves their device."""
