-- Staged count: how many rows did the newest batch stage? "Does not exist" means: nothing, or it was dropped after the commit.
-- {staging}: the batch's staging table, tidemark_staging."batch_" and its id.
SELECT count(*) AS staged_rows
FROM {staging}
