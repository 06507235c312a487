"""The profile: named slots filled from an owner's memories, shown to the model where a request needs them.

:class:`~threadkeep.profile.schema.ProfileSlot` describes a slot, :mod:`~threadkeep.profile.defaults` has the default
schema, and :class:`~threadkeep.profile.service.ProfileService` is ``tk.profile``. Nothing of a profile is stored: it is
derived from the memories at each use.
"""
