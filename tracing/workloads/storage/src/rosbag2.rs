//! rosbag2's plugins, loaded by name through its `StorageFactory` (rosbag2/sink.cpp).
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::fs::File;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, Symbol};

use crate::arguments::Arguments;
use crate::content::Content;
use crate::failure::{Failure, Result};
use crate::messages::Message;
use crate::place::files_of;
use crate::process::thread_cpu_ns;

/// As in rosbag2/sink.h.
#[repr(C)]
struct Given {
    time_ns: i64,
    data: *const u8,
    length: usize,
    topic: u16,
}

type Open = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const c_char,
    *const c_char,
    u16,
    *const c_char,
    *const c_char,
) -> c_int;
type Prepare = unsafe extern "C" fn(*const Given, usize) -> c_int;
type Call = unsafe extern "C" fn() -> c_int;
type Text = unsafe extern "C" fn() -> *const c_char;

/// The library that calls the plugins, loaded and with room for a batch: before anything is
/// measured.
pub struct Rosbag2 {
    open: Symbol<Open>,
    prepare: Symbol<Prepare>,
    write: Symbol<Call>,
    close: Symbol<Call>,
    error: Symbol<Text>,
    /// Versions of `rosbag2_storage`, `SQLite` and mcap.
    pub versions: Vec<String>,
    at_once: usize,
}

impl Rosbag2 {
    /// Loads it from its folder.
    ///
    /// `at_once` is how many messages it has to hold at once.
    pub fn load(folder: &Path, at_once: usize) -> Result<Self> {
        let path = folder.join("lib/libroslens_rosbag2_sink.so");
        let wrong = |e: libloading::Error| Failure::Run(format!("{}: {e}", path.display()));
        // SAFETY: the library and the signatures of its functions are ours (rosbag2/sink.h), and it
        // is never unloaded, for plugins may have threads and what runs at exit.
        unsafe {
            let library = Library::open(Some(&path), RTLD_LAZY | RTLD_LOCAL).map_err(wrong)?;
            let reserve: Symbol<unsafe extern "C" fn(usize) -> c_int> =
                library.get(b"roslens_sink_reserve").map_err(wrong)?;
            let versions: Symbol<Text> = library.get(b"roslens_sink_versions").map_err(wrong)?;
            let versions = CStr::from_ptr(versions()).to_string_lossy();
            let found = Self {
                open: library.get(b"roslens_sink_open").map_err(wrong)?,
                prepare: library.get(b"roslens_sink_prepare").map_err(wrong)?,
                write: library.get(b"roslens_sink_write").map_err(wrong)?,
                close: library.get(b"roslens_sink_close").map_err(wrong)?,
                error: library.get(b"roslens_sink_error").map_err(wrong)?,
                versions: versions.split(' ').map(str::to_owned).collect(),
                at_once,
            };
            found.check(reserve(at_once))?;
            std::mem::forget(library);
            Ok(found)
        }
    }

    /// Opens the bag that was asked for by its plugin; where a compression was, by rosbag2's writer.
    pub fn open(&self, arguments: &Arguments, topics: u16) -> Result<Bag<'_>> {
        let asked = &arguments.configuration;
        let folder = &arguments.place;
        let text = |text: &str| CString::new(text).map_err(|e| Failure::Usage(e.to_string()));
        let storage = text(asked.storage)?;
        let preset = text(asked.preset)?;
        let configuration = text(&asked.file.to_string_lossy())?;
        let uri = text(&folder.join("recording").to_string_lossy())?;
        let kind = text("std_msgs/msg/UInt8MultiArray")?;
        let compression = text(arguments.compression.as_deref().unwrap_or_default())?;
        // SAFETY: as declared in rosbag2/sink.h; the texts live until it returns.
        let code = unsafe {
            (self.open)(
                storage.as_ptr(),
                preset.as_ptr(),
                configuration.as_ptr(),
                uri.as_ptr(),
                topics,
                kind.as_ptr(),
                compression.as_ptr(),
            )
        };
        self.check(code)?;
        Ok(Bag {
            library: self,
            given: Vec::with_capacity(self.at_once),
            to_sync: asked.fsync.then(|| folder.clone()),
        })
    }

    fn check(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: it is a text that stays until the next call.
        let text = unsafe { CStr::from_ptr((self.error)()) };
        let line = text.to_string_lossy().replace('\n', " ");
        Err(Failure::Run(format!("rosbag2: {line}")))
    }
}

/// A bag that messages are written to.
pub struct Bag<'a> {
    library: &'a Rosbag2,
    given: Vec<Given>,
    to_sync: Option<PathBuf>,
}

impl Bag<'_> {
    /// Makes the next batch ready; CPU time it took, ns.
    ///
    /// `first` is the number of the batch's first message; it is its time in ns as well. Not part
    /// of a write call: a recorder has its messages before it writes them.
    pub fn prepare(&mut self, first: u64, batch: &[Message], content: &Content) -> Result<u64> {
        // Of this thread: those of rosbag2's writer may be at work.
        let begin = thread_cpu_ns();
        self.given.clear();
        for (number, message) in (first..).zip(batch) {
            self.given.push(Given {
                time_ns: number.cast_signed(),
                data: content.slice(message.begin, message.length).as_ptr(),
                length: message.length,
                topic: message.topic,
            });
        }
        // SAFETY: the content outlives the sink; the list is read during the call only.
        let code = unsafe { (self.library.prepare)(self.given.as_ptr(), self.given.len()) };
        self.library.check(code)?;
        Ok(thread_cpu_ns() - begin)
    }

    /// Writes the batch: what a recorder hands over at once.
    pub fn write(&mut self) -> Result<()> {
        // SAFETY: takes nothing; the bag is open.
        self.library.check(unsafe { (self.library.write)() })
    }

    /// Ends the file so that it can be read; called once, last.
    pub fn close(&mut self) -> Result<()> {
        // SAFETY: takes nothing.
        self.library.check(unsafe { (self.library.close)() })?;
        if let Some(folder) = &self.to_sync {
            for path in files_of(folder)? {
                File::open(path)?.sync_all()?;
            }
        }
        Ok(())
    }
}
