//! What the C library keeps of freed memory.

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
