"""REST, for programs: the same services, and the same people's rights, as the pages."""
