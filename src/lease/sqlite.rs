//! A store in a file: it outlives its processes, and several of them share it.

use std::fs::OpenOptions;
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::LeaseError;
use super::record::{LeaseId, LeaseRecord};
use super::store::{Filter, Leases, Store, Work};

/// The version of the schema, in the file's `user_version`.
const VERSION: i32 = 1;

/// Says in the file's header that it is ours.
const APPLICATION: i32 = 0x4865_4c65;

/// How long a process waits for another one's transaction. Those take well below a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

/// The record is the truth; the other columns are there to find it by, and for people who look into the file.
const SCHEMA: &str = "
    CREATE TABLE lease (
        id           TEXT PRIMARY KEY,
        state        TEXT NOT NULL,
        undelivered  INTEGER NOT NULL,
        name         TEXT,
        run_id       TEXT,
        owner_kind   TEXT,
        owner_id     TEXT,
        project_root TEXT,
        record       TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX lease_name ON lease (name) WHERE name IS NOT NULL AND state IN ('pending', 'running');
    CREATE INDEX lease_state ON lease (state);
    CREATE INDEX lease_undelivered ON lease (id) WHERE undelivered;
    CREATE INDEX lease_run ON lease (run_id);
    CREATE INDEX lease_owner ON lease (owner_id);
    CREATE INDEX lease_project ON lease (project_root);
";

#[derive(Debug)]
pub(super) struct Sqlite {
    path: PathBuf,
    connection: Mutex<Opened>,
}

/// A connection and the process that opened it.
#[derive(Debug)]
struct Opened {
    connection: Connection,
    by: u32,
}

impl Sqlite {
    pub(super) fn open(path: &Path) -> Result<Self, LeaseError> {
        Ok(Self { path: path.to_owned(), connection: Mutex::new(Opened::new(path)?) })
    }

    fn transaction(&self, behavior: TransactionBehavior, work: &mut Work<'_>) -> Result<(), LeaseError> {
        let mut opened = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.by != process::id() {
            // A connection must not be used, nor closed, on the other side of a fork.
            let inherited = mem::replace(&mut *opened, Opened::new(&self.path)?);
            mem::forget(inherited);
        }
        let transaction = opened.connection.transaction_with_behavior(behavior).map_err(failed("lock"))?;
        let mut rows = Rows(transaction);
        work(&mut rows)?;
        rows.0.commit().map_err(failed("write"))
    }
}

impl Store for Sqlite {
    fn change(&self, work: &mut Work<'_>) -> Result<(), LeaseError> {
        self.transaction(TransactionBehavior::Immediate, work)
    }

    fn read(&self, work: &mut Work<'_>) -> Result<(), LeaseError> {
        self.transaction(TransactionBehavior::Deferred, work)
    }
}

impl Opened {
    fn new(path: &Path) -> Result<Self, LeaseError> {
        // Command lines may hold secrets, so the file is its owner's alone; its journals take over its mode.
        let _ = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|source| LeaseError::Store { verb: "open", source: source.into() })?;
        let connection = Self::connect(path).map_err(|error| match error {
            LeaseError::Store { source, .. } if is_no_database(&*source) => {
                not_a_registry(path, "is no SQLite database")
            }
            error => error,
        })?;
        Ok(Self { connection, by: process::id() })
    }

    fn connect(path: &Path) -> Result<Connection, LeaseError> {
        let mut connection = Connection::open(path).map_err(failed("open"))?;
        connection.busy_timeout(PATIENCE).map_err(failed("open"))?;
        Self::claim(&mut connection, path)?;
        // Readers do not wait for a writer. A loss of power may cost the last moments, and no process outlives it.
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed("open"))?;
        connection.pragma_update(None, "synchronous", "normal").map_err(failed("open"))?;
        Ok(connection)
    }

    /// Makes an empty file a registry, and refuses one that is something else.
    fn claim(connection: &mut Connection, path: &Path) -> Result<(), LeaseError> {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed("lock"))?;
        let number = |sql| transaction.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(failed("read"));
        let version = number("SELECT user_version FROM pragma_user_version")?;
        let application = number("SELECT application_id FROM pragma_application_id")?;
        match (application, version) {
            (APPLICATION, VERSION) => return Ok(()),
            (APPLICATION, newer) => {
                let problem =
                    format!("is a registry of version {newer}, and {VERSION} is the newest known here; update");
                return Err(not_a_registry(path, problem));
            }
            _ if number("SELECT count(*) FROM sqlite_schema")? > 0 => {
                return Err(not_a_registry(path, "is another program's database; give a path of its own"));
            }
            _ => {}
        }
        transaction.execute_batch(SCHEMA).map_err(failed("create"))?;
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(failed("create"))?;
        transaction.pragma_update(None, "user_version", VERSION).map_err(failed("create"))?;
        transaction.commit().map_err(failed("create"))
    }
}

fn is_no_database(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    error == Some(ErrorCode::NotADatabase)
}

fn not_a_registry(path: &Path, problem: impl Into<String>) -> LeaseError {
    LeaseError::NotARegistry { path: path.to_owned(), problem: problem.into() }
}

fn failed<E: std::error::Error + Send + Sync + 'static>(verb: &'static str) -> impl Fn(E) -> LeaseError {
    move |source| LeaseError::Store { verb, source: source.into() }
}

struct Rows<'a>(Transaction<'a>);

fn parse(json: &str) -> Result<LeaseRecord, LeaseError> {
    serde_json::from_str(json).map_err(failed("read"))
}

impl Leases for Rows<'_> {
    fn get(&self, id: LeaseId) -> Result<Option<LeaseRecord>, LeaseError> {
        let mut statement = self.0.prepare_cached("SELECT record FROM lease WHERE id = ?").map_err(failed("read"))?;
        let json = statement.query_row([id.to_string()], |row| row.get::<_, String>(0)).optional();
        json.map_err(failed("read"))?.map(|json| parse(&json)).transpose()
    }

    fn find(&self, filter: &Filter) -> Result<Vec<LeaseRecord>, LeaseError> {
        let columns = [
            ("name", filter.name.as_deref()),
            ("run_id", filter.run_id.as_deref()),
            ("owner_id", filter.owner.as_ref().map(|(_, id)| id.as_str())),
            ("project_root", filter.project_root.as_deref()),
        ];
        let mut sql = "SELECT record FROM lease WHERE true".to_owned();
        let mut values = Vec::new();
        for (column, value) in columns {
            if let Some(value) = value {
                sql = sql + " AND " + column + " = ?";
                values.push(value);
            }
        }
        if let Some(states) = &filter.states {
            sql = sql + " AND state IN (" + &vec!["?"; states.len()].join(", ") + ")";
            values.extend(states.iter().map(|state| state.as_str()));
        }
        if filter.undelivered {
            sql += " AND undelivered";
        }
        sql += " ORDER BY id";
        let mut statement = self.0.prepare_cached(&sql).map_err(failed("read"))?;
        let rows = statement.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(0));
        let mut found = Vec::new();
        for json in rows.map_err(failed("read"))? {
            found.push(parse(&json.map_err(failed("read"))?)?);
        }
        found.retain(|record| filter.matches(record));
        Ok(found)
    }

    fn put(&mut self, record: &LeaseRecord) -> Result<(), LeaseError> {
        let ordered = &record.ordered;
        let row = params![
            record.id.to_string(),
            record.state().as_str(),
            record.is_undelivered(),
            record.name,
            ordered.run_id,
            ordered.owner_kind,
            ordered.owner_id,
            ordered.project_root,
            serde_json::to_string(record).map_err(failed("write"))?,
        ];
        let sql = "INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let written = self.0.prepare_cached(sql).and_then(|mut statement| statement.execute(row));
        written.map(drop).map_err(failed("write"))
    }

    fn remove(&mut self, id: LeaseId) -> Result<(), LeaseError> {
        let removed = self.0.execute("DELETE FROM lease WHERE id = ?", [id.to_string()]);
        removed.map(drop).map_err(failed("write"))
    }
}
