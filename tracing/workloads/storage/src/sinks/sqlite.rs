//! `SQLite` as rosbag2's plugin uses it: its schema (version 4), its pragmas, its one prepared
//! statement, one transaction per batch.
//!
//! Messages are bound without a copy (`SQLITE_STATIC`), as rosbag2 does; rusqlite would copy
//! them, so the statement in the loop is run through `SQLite`'s own interface.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::ptr;

use rusqlite::{Connection, ffi};

use crate::configuration::Sqlite as Options;
use crate::content::Content;
use crate::failure::{Failure, Result};
use crate::messages::Message;
use crate::sinks::{Sink, TYPE, topic_name};

const SCHEMA: &str = "
CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL,
  metadata TEXT NOT NULL);
CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
  serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL,
  type_description_hash TEXT NOT NULL);
CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL,
  encoding TEXT NOT NULL, encoded_message_definition TEXT NOT NULL,
  type_description_hash TEXT NOT NULL);
CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL,
  timestamp INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX timestamp_idx ON messages (timestamp ASC);
INSERT INTO schema (schema_version, ros_distro) VALUES (4, 'roslens');
";
const INSERT: &str = "INSERT INTO messages (timestamp, topic_id, data) VALUES (?, ?, ?)";

pub struct Sqlite {
    connection: Option<Connection>,
    insert: Statement,
    begin: Statement,
    commit: Statement,
    topics: Vec<i64>,
    to_sync: Option<PathBuf>,
}

impl Sqlite {
    /// Makes a new database.
    pub fn create(path: &Path, options: &Options, topics: u16, fsync: bool) -> Result<Self> {
        let connection = Connection::open(path)?;
        if let Some(bytes) = options.page_size {
            connection.pragma_update(None, "page_size", bytes)?;
        }
        if let Some(kib) = options.cache_kib {
            connection.pragma_update(None, "cache_size", -i64::from(kib))?;
        }
        set(&connection, "journal_mode", options.journal_mode)?;
        connection.pragma_update(None, "synchronous", options.synchronous)?;
        connection.execute_batch(SCHEMA)?;
        let mut ids = Vec::new();
        for topic in 0..topics {
            connection.execute(
                "INSERT INTO topics (name, type, serialization_format, offered_qos_profiles, \
                 type_description_hash) VALUES (?, ?, 'cdr', '', '')",
                [&topic_name(topic), TYPE],
            )?;
            ids.push(connection.last_insert_rowid());
        }
        Ok(Self {
            insert: Statement::prepare(&connection, INSERT)?,
            begin: Statement::prepare(&connection, "BEGIN TRANSACTION")?,
            commit: Statement::prepare(&connection, "COMMIT")?,
            connection: Some(connection),
            topics: ids,
            to_sync: fsync.then(|| path.to_owned()),
        })
    }
}

fn set(connection: &Connection, pragma: &str, value: &str) -> Result<()> {
    let mut got = String::new();
    connection.pragma_update_and_check(None, pragma, value, |row| {
        got = row.get(0)?;
        Ok(())
    })?;
    if got.eq_ignore_ascii_case(value) {
        return Ok(());
    }
    Err(Failure::Run(format!(
        "SQLite: {pragma} is {got} here and cannot be {value}"
    )))
}

impl Sink for Sqlite {
    fn write(&mut self, first: u64, batch: &[Message], content: &Content) -> Result<()> {
        self.begin.run()?;
        for (number, message) in (first..).zip(batch) {
            let data = content.slice(message.begin, message.length);
            let topic = self.topics[usize::from(message.topic)];
            self.insert.run_with(number.cast_signed(), topic, data)?;
        }
        self.commit.run()
    }

    fn close(&mut self) -> Result<()> {
        for statement in [&mut self.insert, &mut self.begin, &mut self.commit] {
            statement.finalize();
        }
        if let Some(connection) = self.connection.take() {
            connection.close().map_err(|(_, error)| error)?;
        }
        if let Some(path) = &self.to_sync {
            File::open(path)?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // Before the connection, which lives in the same struct.
        for statement in [&mut self.insert, &mut self.begin, &mut self.commit] {
            statement.finalize();
        }
    }
}

/// A prepared statement that binds blobs without copying them.
struct Statement(*mut ffi::sqlite3_stmt, *mut ffi::sqlite3);

impl Statement {
    fn prepare(connection: &Connection, sql: &str) -> Result<Self> {
        let length = c_int::try_from(sql.len()).unwrap_or(-1);
        let mut raw = ptr::null_mut();
        // SAFETY: the connection is open, and the text is read during the call only. Whoever
        // holds the statement finalizes it before the connection is closed.
        let (database, code) = unsafe {
            let database = connection.handle();
            let code = ffi::sqlite3_prepare_v3(
                database,
                sql.as_ptr().cast(),
                length,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &raw mut raw,
                ptr::null_mut(),
            );
            (database, code)
        };
        check(database, code, ffi::SQLITE_OK)?;
        Ok(Self(raw, database))
    }

    fn run(&mut self) -> Result<()> {
        // SAFETY: the statement is valid until `finalize`, which leaves a null pointer, with
        // which SQLite answers SQLITE_MISUSE or does nothing.
        let code = unsafe {
            let code = ffi::sqlite3_step(self.0);
            ffi::sqlite3_reset(self.0);
            code
        };
        check(self.1, code, ffi::SQLITE_DONE)
    }

    fn run_with(&mut self, time: i64, topic: i64, data: &[u8]) -> Result<()> {
        // SAFETY: as in `run`; the data outlives the binding, which is replaced or cleared before
        // the borrow ends: `sqlite3_step` has read it when it returns, and nothing steps again
        // without binding anew.
        let bound = unsafe {
            ffi::sqlite3_bind_int64(self.0, 1, time)
                | ffi::sqlite3_bind_int64(self.0, 2, topic)
                | ffi::sqlite3_bind_blob64(
                    self.0,
                    3,
                    data.as_ptr().cast(),
                    data.len() as u64,
                    ffi::SQLITE_STATIC(),
                )
        };
        check(self.1, bound, ffi::SQLITE_OK)?;
        self.run()
    }

    fn finalize(&mut self) {
        // SAFETY: the connection is still open; a null pointer is allowed.
        unsafe { ffi::sqlite3_finalize(self.0) };
        self.0 = ptr::null_mut();
    }
}

fn check(database: *mut ffi::sqlite3, code: c_int, wanted: c_int) -> Result<()> {
    if code == wanted {
        return Ok(());
    }
    // SAFETY: the message belongs to the open connection and is copied at once.
    let text = unsafe { std::ffi::CStr::from_ptr(ffi::sqlite3_errmsg(database)) };
    Err(Failure::Run(format!("SQLite: {}", text.to_string_lossy())))
}
