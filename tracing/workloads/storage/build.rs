//! Compiles the tracepoints where LTTng-UST can be compiled against.

fn main() {
    println!("cargo:rustc-check-cfg=cfg(lttng)");
    println!("cargo:rerun-if-changed=src/probe.c");
    println!("cargo:rerun-if-changed=src/probe.h");
    println!("cargo:rerun-if-env-changed=ROSLENS_WITHOUT_LTTNG");
    if std::env::var_os("ROSLENS_WITHOUT_LTTNG").is_some() {
        return;
    }
    let compiled = cc::Build::new()
        .file("src/probe.c")
        .include("src")
        .warnings(false)
        .cargo_metadata(false)
        .try_compile("roslens_storage_probe");
    match compiled {
        Ok(()) => {
            let folder = std::env::var("OUT_DIR").unwrap_or_default();
            println!("cargo:rustc-link-search=native={folder}");
            // Whole: nothing names the functions that register the provider.
            println!("cargo:rustc-link-lib=static:+whole-archive=roslens_storage_probe");
            println!("cargo:rustc-link-lib=lttng-ust");
            // The tracepoints are found by the bounds of their section, which lld would drop.
            println!("cargo:rustc-link-arg-bins=-Wl,-z,nostart-stop-gc");
            println!("cargo:rustc-cfg=lttng");
        }
        Err(_) => println!(
            "cargo:warning=no LTTng-UST to compile against (liblttng-ust-dev): without tracepoints"
        ),
    }
}
