//! The JSON Schema that is shipped is the one of the types.

use std::fs;
use std::path::Path;

use hermes_env_bridge::OmniusRunContext;

/// `UPDATE_SCHEMA=1 cargo test --features schema --test run_schema` writes it anew.
#[test]
fn the_schema_that_is_shipped_is_that_of_the_record() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/omnius-run-context.schema.json");
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(OmniusRunContext)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&file, &schema).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), schema, "run with UPDATE_SCHEMA=1");
}
