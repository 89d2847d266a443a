-- What Redshift has and PostgreSQL lacks: functions, and the system views with the tables under them.
-- Run at each start; every statement may be run again. No backslashes: literals are read as Redshift reads them.

CREATE SCHEMA IF NOT EXISTS redshift_local;
GRANT USAGE ON SCHEMA redshift_local TO PUBLIC;

CREATE SEQUENCE IF NOT EXISTS redshift_local.query_id MINVALUE 1000 MAXVALUE 2147483647;

CREATE OR REPLACE FUNCTION redshift_local.getdate() RETURNS timestamp LANGUAGE sql STABLE
    AS $$ SELECT pg_catalog.statement_timestamp()::timestamp $$;
CREATE OR REPLACE FUNCTION redshift_local.sysdate() RETURNS timestamp LANGUAGE sql STABLE
    AS $$ SELECT pg_catalog.transaction_timestamp()::timestamp $$;
CREATE OR REPLACE FUNCTION redshift_local.nvl2(anyelement, anycompatible, anycompatible) RETURNS anycompatible
    LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN $1 IS NOT NULL THEN $2 ELSE $3 END $$;
CREATE OR REPLACE FUNCTION redshift_local.len(text) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT pg_catalog.char_length($1) $$;
CREATE OR REPLACE FUNCTION redshift_local.charindex(text, text) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT pg_catalog.strpos($2, $1) $$;
CREATE OR REPLACE FUNCTION redshift_local.trunc(timestamp) RETURNS date LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT $1::date $$;
CREATE OR REPLACE FUNCTION redshift_local.convert_timezone(text, text, timestamp) RETURNS timestamp
    LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT ($3 AT TIME ZONE $1) AT TIME ZONE $2 $$;
CREATE OR REPLACE FUNCTION redshift_local.convert_timezone(text, timestamp) RETURNS timestamp
    LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT ($2 AT TIME ZONE 'UTC') AT TIME ZONE $1 $$;
CREATE OR REPLACE FUNCTION redshift_local.json_parse(text) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT $1::jsonb $$;
CREATE OR REPLACE FUNCTION redshift_local.json_serialize(jsonb) RETURNS text LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT $1::text $$;
CREATE OR REPLACE FUNCTION redshift_local.sha2(text, integer) RETURNS text LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT CASE $2
        WHEN 224 THEN pg_catalog.encode(pg_catalog.sha224(pg_catalog.convert_to($1, 'UTF8')), 'hex')
        WHEN 256 THEN pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to($1, 'UTF8')), 'hex')
        WHEN 0 THEN pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to($1, 'UTF8')), 'hex')
        WHEN 384 THEN pg_catalog.encode(pg_catalog.sha384(pg_catalog.convert_to($1, 'UTF8')), 'hex')
        WHEN 512 THEN pg_catalog.encode(pg_catalog.sha512(pg_catalog.convert_to($1, 'UTF8')), 'hex')
    END $$;

-- DATEADD and DATEDIFF; their first argument, a bare word, arrives as text.
CREATE OR REPLACE FUNCTION redshift_local.date_interval(part text, amount bigint) RETURNS interval
    LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT CASE
        WHEN part IN ('quarter', 'quarters', 'qtr', 'qtrs') THEN amount * interval '3 months'
        ELSE amount * ('1 ' || part)::interval
    END $$;
CREATE OR REPLACE FUNCTION redshift_local.dateadd(part text, amount bigint, at timestamp) RETURNS timestamp
    LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT at + redshift_local.date_interval(part, amount) $$;
CREATE OR REPLACE FUNCTION redshift_local.dateadd(part text, amount bigint, at timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE STRICT AS $$ SELECT at + redshift_local.date_interval(part, amount) $$;
CREATE OR REPLACE FUNCTION redshift_local.datediff(part text, a timestamp, b timestamp) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT CASE rtrim(part, 's')
        WHEN 'year' THEN extract(year FROM b) - extract(year FROM a)
        WHEN 'quarter' THEN (extract(year FROM b) - extract(year FROM a)) * 4
            + extract(quarter FROM b) - extract(quarter FROM a)
        WHEN 'month' THEN (extract(year FROM b) - extract(year FROM a)) * 12
            + extract(month FROM b) - extract(month FROM a)
        WHEN 'week' THEN extract(epoch FROM date_trunc('week', b) - date_trunc('week', a)) / 604800
        WHEN 'day' THEN b::date - a::date
        WHEN 'hour' THEN extract(epoch FROM date_trunc('hour', b) - date_trunc('hour', a)) / 3600
        WHEN 'minute' THEN extract(epoch FROM date_trunc('minute', b) - date_trunc('minute', a)) / 60
        WHEN 'second' THEN extract(epoch FROM date_trunc('second', b) - date_trunc('second', a))
        WHEN 'millisecond' THEN floor(extract(epoch FROM b - a) * 1000)
        WHEN 'microsecond' THEN floor(extract(epoch FROM b - a) * 1000000)
    END::bigint $$;

-- Of the session's last COPY; the server keeps them in settings of the connection.
CREATE OR REPLACE FUNCTION redshift_local.pg_last_copy_id() RETURNS integer LANGUAGE sql STABLE
    AS $$ SELECT coalesce(nullif(pg_catalog.current_setting('redshift_local.copy_id', true), ''), '-1')::integer $$;
CREATE OR REPLACE FUNCTION redshift_local.pg_last_copy_count() RETURNS bigint LANGUAGE sql STABLE
    AS $$ SELECT coalesce(nullif(pg_catalog.current_setting('redshift_local.copy_count', true), ''), '0')::bigint $$;
CREATE OR REPLACE FUNCTION redshift_local.pg_last_query_id() RETURNS bigint LANGUAGE sql STABLE
    AS $$ SELECT coalesce(nullif(pg_catalog.current_setting('redshift_local.query_id', true), ''), '-1')::bigint $$;

CREATE TABLE IF NOT EXISTS redshift_local.load_history (
    query_id bigint PRIMARY KEY, session_id integer, status text, table_name text, start_time timestamp,
    end_time timestamp, data_source text, file_format text, loaded_rows bigint, loaded_bytes bigint,
    source_file_count integer, source_file_bytes bigint, file_count_scanned integer, file_bytes_scanned bigint,
    error_count bigint);
CREATE TABLE IF NOT EXISTS redshift_local.load_detail (
    query_id bigint, file_name text, bytes_scanned bigint, lines_scanned bigint, record_time timestamp,
    start_time timestamp, end_time timestamp, file_etag text, file_last_modified timestamp);
CREATE INDEX IF NOT EXISTS load_detail_query ON redshift_local.load_detail (query_id);
CREATE TABLE IF NOT EXISTS redshift_local.load_error (
    query_id bigint, session_id integer, table_id integer, start_time timestamp, file_name text, line_number bigint,
    column_name text, column_type text, column_length text, position integer, error_code integer, error_message text);
CREATE INDEX IF NOT EXISTS load_error_query ON redshift_local.load_error (query_id);
CREATE TABLE IF NOT EXISTS redshift_local.query_history (
    query_id bigint PRIMARY KEY, session_id integer, query_type text, status text, start_time timestamp,
    end_time timestamp, returned_rows bigint, error_message text, query_text text);

-- What this session loaded. A transaction doesn't see rows another connection wrote after its snapshot, and its own
-- loads are such rows: the server also hands them to the session, as JSON, and the views add what the tables lack.
CREATE OR REPLACE FUNCTION redshift_local.own_loads(kind text) RETURNS jsonb LANGUAGE sql STABLE
    AS $$ SELECT coalesce(nullif(pg_catalog.current_setting('redshift_local.loads', true), ''), '{}')::jsonb -> kind $$;

CREATE OR REPLACE VIEW redshift_local.sys_load_history AS
    SELECT 100 AS user_id, query_id, query_id AS transaction_id, session_id,
        current_database()::char(128) AS database_name, status::char(10), table_name::char(128), start_time, end_time,
        (extract(epoch FROM end_time - start_time) * 1000000)::bigint AS duration, data_source, file_format::char(16),
        loaded_rows, loaded_bytes, source_file_count, source_file_bytes, file_count_scanned, file_bytes_scanned,
        error_count, -1::bigint AS copy_job_id
    FROM (SELECT * FROM redshift_local.load_history
        UNION ALL
        SELECT own.* FROM jsonb_populate_recordset(NULL::redshift_local.load_history,
            redshift_local.own_loads('history')) own
        WHERE own.query_id NOT IN (SELECT query_id FROM redshift_local.load_history)) loads;
CREATE OR REPLACE VIEW redshift_local.sys_load_detail AS
    SELECT 100 AS user_id, query_id, file_name::char(256), bytes_scanned, lines_scanned, record_time,
        1::bigint AS splits_scanned, start_time, end_time, file_etag::char(256), file_last_modified
    FROM (SELECT * FROM redshift_local.load_detail
        UNION ALL
        SELECT own.* FROM jsonb_populate_recordset(NULL::redshift_local.load_detail,
            redshift_local.own_loads('detail')) own
        WHERE own.query_id NOT IN (SELECT query_id FROM redshift_local.load_history)) files;
CREATE OR REPLACE VIEW redshift_local.sys_load_error_detail AS
    SELECT 100 AS user_id, query_id, query_id AS transaction_id, session_id,
        current_database()::char(128) AS database_name, table_id, start_time, file_name::char(256), line_number,
        column_name::char(127), column_type::char(10), column_length::char(10), position, error_code,
        error_message::char(512)
    FROM (SELECT * FROM redshift_local.load_error
        UNION ALL
        SELECT own.* FROM jsonb_populate_recordset(NULL::redshift_local.load_error,
            redshift_local.own_loads('error')) own
        WHERE own.query_id NOT IN (SELECT query_id FROM redshift_local.load_history)) errors;
CREATE OR REPLACE VIEW redshift_local.sys_query_history AS
    SELECT 100 AS user_id, query_id, query_id AS transaction_id, session_id,
        current_database()::char(128) AS database_name, query_type::char(32), status::char(10), start_time, end_time,
        (extract(epoch FROM end_time - start_time) * 1000000)::bigint AS elapsed_time, returned_rows,
        error_message::char(512), query_text::char(4000)
    FROM redshift_local.query_history;

CREATE OR REPLACE VIEW redshift_local.svv_transactions AS
    SELECT activity.usename::text AS txn_owner, current_database()::text AS txn_db,
        coalesce(activity.backend_xid::text::bigint, activity.pid) AS xid, activity.pid,
        activity.xact_start::timestamp AS txn_start, locks.mode::text AS lock_mode,
        CASE WHEN locks.relation IS NULL THEN 'transactionid' ELSE 'relation' END AS lockable_object_type,
        locks.relation::integer AS relation, locks.granted
    FROM pg_catalog.pg_locks locks JOIN pg_catalog.pg_stat_activity activity USING (pid)
    WHERE activity.xact_start IS NOT NULL
        AND coalesce(locks.database, 0) IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()));

CREATE OR REPLACE VIEW redshift_local.pg_table_def AS
    SELECT spaces.nspname AS schemaname, tables.relname AS tablename, columns.attname AS "column",
        format_type(columns.atttypid, columns.atttypmod) AS type, 'none'::text AS encoding, false AS distkey,
        0 AS sortkey, columns.attnotnull AS "notnull"
    FROM pg_catalog.pg_attribute columns
    JOIN pg_catalog.pg_class tables ON tables.oid = columns.attrelid AND tables.relkind IN ('r', 'p')
    JOIN pg_catalog.pg_namespace spaces ON spaces.oid = tables.relnamespace
    WHERE columns.attnum > 0 AND NOT columns.attisdropped;

CREATE OR REPLACE VIEW redshift_local.svv_columns AS
    SELECT table_catalog, table_schema, table_name, column_name, ordinal_position, column_default, is_nullable,
        CASE data_type WHEN 'jsonb' THEN 'super' ELSE data_type::text END AS data_type, character_maximum_length,
        numeric_precision, numeric_scale, datetime_precision
    FROM information_schema.columns;

CREATE OR REPLACE VIEW redshift_local.svv_table_info AS
    SELECT current_database()::text AS "database", spaces.nspname::text AS "schema", tables.oid AS table_id,
        tables.relname::text AS "table", (pg_total_relation_size(tables.oid) / 1048576)::bigint AS size,
        greatest(tables.reltuples, 0)::numeric(38, 0) AS tbl_rows
    FROM pg_catalog.pg_class tables JOIN pg_catalog.pg_namespace spaces ON spaces.oid = tables.relnamespace
    WHERE tables.relkind = 'r' AND spaces.nspname NOT IN ('pg_catalog', 'information_schema', 'redshift_local');

GRANT SELECT ON ALL TABLES IN SCHEMA redshift_local TO PUBLIC;
