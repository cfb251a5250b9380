"""The policy as pages show it: forms generated from the schema, and words in two languages."""
