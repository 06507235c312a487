"""The memory of one owner behind the interfaces of other agent frameworks; each module needs its framework."""
