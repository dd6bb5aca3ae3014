"""The expansion about independent units for any number of levels, and terms of any size."""
