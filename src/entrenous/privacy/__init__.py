"""The choices of users about the data that leaves their device, and its limits."""
