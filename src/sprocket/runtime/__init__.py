"""What is asynchronous and of no product: connections, tasks, and the only threads."""
