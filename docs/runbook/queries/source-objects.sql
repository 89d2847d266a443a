-- Source object list: from which files did the partition's rows come? Booked within the hour after the commit; before that,
-- `tidemark files` reads the same from the control bucket.
-- {batch}: the id of the committed batch, as a literal.
SELECT key, etag, size, last_modified
FROM tidemark.files
WHERE batch_id = {batch}
ORDER BY key
