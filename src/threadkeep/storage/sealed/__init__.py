"""Items encrypted: one wrapper over the seam, so that it works over every backend unchanged.

``master`` holds the keys that the deployment is given and wraps others with them; ``keystore`` keeps a data
key for each partition, in a storage of its own; ``seal`` turns one partition's items into what may be
seen of them and back; ``storage`` is the wrapper; ``checking`` reads everything and says what does not
open. ``marker`` says that a storage is sealed, and needs no cryptography to say it. Everything else here
is imported only where a master key is set.
"""
