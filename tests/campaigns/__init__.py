"""Long trials that are run on request; docs/past_one_machine.md has what they gave."""
