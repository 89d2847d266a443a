//! What a COPY tells of itself: the rows of the load views.
//!
//! They are written twice: by the journal, so that they outlive a rollback, and into a setting of the session, since a
//! transaction under way doesn't see what others wrote (see `support.sql`).

use jiff::Timestamp;
use serde_json::json;

use super::Load;
use crate::failure::Failure;

impl Load<'_> {
    /// The system rows, and what the session says of its last COPY.
    pub(super) async fn write_down(&self, files: usize, completed: bool) -> Result<(), Failure> {
        let loads = json!({
            "history": [{
                "query_id": self.query_id,
                "session_id": self.means.session.pid,
                "status": if completed { "completed" } else { "aborted" },
                "table_name": self.target.name,
                "start_time": self.started,
                "end_time": Timestamp::now(),
                "data_source": self.command.from,
                "file_format": self.command.format.name(),
                "loaded_rows": if completed { self.rows } else { 0 },
                "loaded_bytes": self.bytes,
                "source_file_count": files,
                "source_file_bytes": self.bytes,
                "file_count_scanned": self.file_rows.len(),
                "file_bytes_scanned": self.bytes,
                "error_count": self.errors,
            }],
            "detail": self.file_rows,
            "error": self.error_rows,
        });
        self.means.journal.query(WRITE_DOWN, &[&loads.to_string()]).await?;
        if !completed {
            return Ok(());
        }
        let own = self.means.session.remember_load(loads);
        self.means
            .session
            .client
            .query(
                "SELECT set_config('redshift_local.loads', $1, false), \
                 set_config('redshift_local.copy_id', $2, false), set_config('redshift_local.copy_count', $3, false)",
                &[&own, &self.query_id.to_string(), &self.rows.to_string()],
            )
            .await
            .map_err(|error| self.failed(&error))?;
        Ok(())
    }
}

const WRITE_DOWN: &str = "WITH loads AS (SELECT $1::text::jsonb AS told), \
    history AS (INSERT INTO redshift_local.load_history SELECT rows.* FROM loads, \
        jsonb_populate_recordset(NULL::redshift_local.load_history, told -> 'history') rows), \
    detail AS (INSERT INTO redshift_local.load_detail SELECT rows.* FROM loads, \
        jsonb_populate_recordset(NULL::redshift_local.load_detail, told -> 'detail') rows), \
    error AS (INSERT INTO redshift_local.load_error SELECT rows.* FROM loads, \
        jsonb_populate_recordset(NULL::redshift_local.load_error, told -> 'error') rows) \
    SELECT 1";
