-- What the database user of rebuild, sweep and the operator's `tidemark` needs, and no more. Run once as a superuser, before
-- `tidemark init`. The user itself is no superuser and owns no target. Lines of `--   ` are statements for some only.
--
-- Names to replace:
--   tidemark                     the user; see 1
--   dev                          the database (parameter RedshiftDatabase)
--   sales, sales.orders          schema and target table of each dataset
--   arn:aws:iam::…:role/copy     the role of COPY (parameter CopyRoleArn)

-- 1. One user for functions and operators: tables and procedures belong to who makes them (`init`, `apply`, each rebuild), and
-- procedures run with the rights of who calls them.
--   secret (RedshiftSecretArn), workgroup or cluster:  the user whose name and password the secret holds
--   RedshiftDbUser, cluster:                           that user; IAM makes its passwords
--   neither:                                           Redshift names the user after the role that calls, for rebuild and sweep
--     "IAMR:<name of the role in the stack's output RebuildRoleArn>", in which both run then. Operators run `init` and `apply` as a
--     user of their own, and 5 is needed.
CREATE USER tidemark PASSWORD DISABLE; -- or PASSWORD '…', the one in the secret

-- 2. `init`: schemas, ledger, procedures. CREATE on the database is needed by `init` only (also after an upgrade), and may be
-- revoked in between. TEMP is for tidemark_counts, in each swap.
GRANT CREATE, TEMP ON DATABASE dev TO tidemark;
GRANT USAGE ON LANGUAGE plpgsql TO tidemark;

-- 3. Each target. Rows are deleted, inserted and counted; a target is never altered or truncated.
GRANT USAGE ON SCHEMA sales TO tidemark;
GRANT SELECT, INSERT, DELETE ON TABLE sales.orders TO tidemark;

-- 4. COPY, where a superuser took the right to use roles from PUBLIC (it is everybody's by default). Where 5 is needed, for both.
--   GRANT ASSUMEROLE ON 'arn:aws:iam::123456789012:role/copy' TO tidemark FOR COPY;

-- 5. Only where functions and operators are different users. `tidemark` is the operators' then, one for all of them (a role that
-- they assume): only the owner may replace what `init` and `apply` made. The functions get of it what they do. To be run as a
-- superuser after `init` and before the first `apply`; 3 for the functions again with each new target.
--   CREATE USER "IAMR:tidemark-RebuildRole-EXAMPLE" PASSWORD DISABLE;
--   GRANT TEMP ON DATABASE dev TO "IAMR:tidemark-RebuildRole-EXAMPLE";
--   GRANT USAGE ON SCHEMA sales TO "IAMR:tidemark-RebuildRole-EXAMPLE";
--   GRANT SELECT, INSERT, DELETE ON TABLE sales.orders TO "IAMR:tidemark-RebuildRole-EXAMPLE";
--   GRANT USAGE ON SCHEMA tidemark TO "IAMR:tidemark-RebuildRole-EXAMPLE";
--   GRANT USAGE, CREATE ON SCHEMA tidemark_staging TO "IAMR:tidemark-RebuildRole-EXAMPLE";
--   GRANT SELECT, INSERT ON TABLE tidemark.batches TO "IAMR:tidemark-RebuildRole-EXAMPLE";
--   GRANT SELECT, INSERT, DELETE ON TABLE tidemark.files TO "IAMR:tidemark-RebuildRole-EXAMPLE";
-- To lock it; Redshift documents no right for LOCK, PostgreSQL asks for this one or UPDATE:
--   GRANT DELETE ON TABLE tidemark.booking TO "IAMR:tidemark-RebuildRole-EXAMPLE";
--   GRANT EXECUTE ON ALL PROCEDURES IN SCHEMA tidemark TO "IAMR:tidemark-RebuildRole-EXAMPLE";
-- The fence table and procedures of each target, which `apply` makes. Those that are there already: by name, as 3.
--   ALTER DEFAULT PRIVILEGES FOR USER tidemark IN SCHEMA tidemark GRANT SELECT, INSERT, UPDATE ON TABLES TO "IAMR:tidemark-RebuildRole-EXAMPLE";
--   ALTER DEFAULT PRIVILEGES FOR USER tidemark IN SCHEMA tidemark GRANT EXECUTE ON PROCEDURES TO "IAMR:tidemark-RebuildRole-EXAMPLE";
-- Staging tables belong to who made them. That of an operator's rehearsal that was killed is not sweep's to drop: the operators'
-- user sees it in information_schema.tables, and drops it.

-- 6. After `init`: who may read the ledger (which rows landed, and from which files?). Nobody is let into tidemark_staging: raw
-- rows lie there.
--   CREATE USER analyst PASSWORD DISABLE;
--   GRANT USAGE ON SCHEMA tidemark TO analyst;
--   GRANT SELECT ON TABLE tidemark.batches, tidemark.files TO analyst;

-- Of the system views, a user sees its own rows of sys_load_detail and sys_load_error_detail, and everybody's of
-- svv_transactions. That is all that is asked; sys:monitor isn't needed.
