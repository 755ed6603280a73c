//! Writes messages by rosbag2's storage plugins as a bag recorder does, and times each write.
//!
//! One process measures one cell: one configuration, one message suite, one batch size. What it
//! measured goes into a folder (`writes.csv`, `run.json`); the recording itself lies on a RAM
//! disk, so that the plugins are compared and not disks, and is removed by who started it.

mod allocations;
mod arguments;
mod configuration;
mod content;
mod failure;
mod measure;
mod messages;
mod place;
mod process;
mod report;
mod rosbag2;
mod sustained;
mod timed;
mod tracepoints;

use std::process::ExitCode;

use crate::arguments::Arguments;
use crate::failure::Result;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("roslens-storage: error: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}

fn run() -> Result<()> {
    let Some(arguments) = Arguments::from_command_line()? else {
        print!("{}", arguments::HELP);
        return Ok(());
    };
    if arguments.rate.is_some() {
        sustained::run(&arguments)
    } else {
        measure::run(&arguments)
    }
}
