"""What every layer may use, all of it synchronous; it imports no other layer."""
