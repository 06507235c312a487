"""The profile: named slots filled from an owner's memories, shown to the model where a request needs them.

:class:`~threadkeep.recall.profile.schema.ProfileSlot` describes a slot, beside the default schema, and
:class:`~threadkeep.recall.profile.service.ProfileService` is ``tk.profile``. Nothing of a profile is stored: it is
derived from the memories at each use.
"""
