-- Staged count: how many rows did the newest batch stage? "Does not exist" means: nothing, or it was dropped after the commit.
-- {staging}: the batch's staging table, tidemark_staging."batch_", its id, "_" and the first 12 digits of its digest.
SELECT count(*) AS staged_rows
FROM {staging}
