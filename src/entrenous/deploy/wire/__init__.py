"""What arrays look like between processes."""
