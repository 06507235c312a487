-- Items may carry bytes beside their value.
ALTER TABLE items ADD COLUMN data BLOB;
