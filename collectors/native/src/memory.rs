//! What the C library keeps of freed memory.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is taken again soon had better be kept: the system clears each page that it gives.
const PAUSE: Duration = Duration::from_secs(30);

static GIVEN: Mutex<Option<Instant>> = Mutex::new(None);

/// `give_back`, unless it was done a moment ago.
pub fn give_back_at_times() {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    if given.is_none_or(|then| then.elapsed() > PAUSE) {
        give_back();
        *given = Some(Instant::now());
    }
}

/// Give it back to the system: each thread had a pool of its own, and a thread that comes later
/// does not fill those that ended ones left, so that memory would grow call by call.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a call into the C library")]
    // SAFETY: it may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
