//! Each write call and the close as `LTTng` tracepoints of the provider `roslens_storage`.
//!
//! The probe is C (probe.c), compiled where LTTng-UST's headers are; elsewhere these do nothing.
#![cfg_attr(lttng, allow(unsafe_code))]

/// Whether the tracepoints were compiled in.
pub const COMPILED_IN: bool = cfg!(lttng);

#[cfg(lttng)]
unsafe extern "C" {
    fn roslens_storage_write_begin(call: u64, bytes: u64, messages: u64);
    fn roslens_storage_write_end(call: u64);
    fn roslens_storage_close_begin();
    fn roslens_storage_close_end();
}

/// A write call begins.
#[inline]
pub fn write_begin(call: u64, bytes: u64, messages: u64) {
    #[cfg(lttng)]
    // SAFETY: takes numbers only.
    unsafe {
        roslens_storage_write_begin(call, bytes, messages);
    }
    #[cfg(not(lttng))]
    let _ = (call, bytes, messages);
}

/// A write call has ended.
#[inline]
pub fn write_end(call: u64) {
    #[cfg(lttng)]
    // SAFETY: takes a number only.
    unsafe {
        roslens_storage_write_end(call);
    }
    #[cfg(not(lttng))]
    let _ = call;
}

/// The file is about to be closed.
pub fn close_begin() {
    #[cfg(lttng)]
    // SAFETY: takes nothing.
    unsafe {
        roslens_storage_close_begin();
    }
}

/// The file is closed.
pub fn close_end() {
    #[cfg(lttng)]
    // SAFETY: takes nothing.
    unsafe {
        roslens_storage_close_end();
    }
}
