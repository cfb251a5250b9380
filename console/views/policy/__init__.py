"""The operators' pages about the policy."""
