-- Duplicate keys: which business keys does the target's partition hold more than once?
-- {target}: the target table; {of_partition}: the condition for its rows of the partition; {key}: the key's columns.
SELECT {key}, count(*) AS times
FROM {target}
WHERE {of_partition}
GROUP BY {key}
HAVING count(*) > 1
ORDER BY times DESC
LIMIT 100
