"""Power series of the action and of the cross entropy of any network along a ray."""
