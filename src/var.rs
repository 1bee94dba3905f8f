//! One read for each session variable: what the task bound, else what the environment has.
//!
//! Each is [`try_get_session_env`](crate::try_get_session_env) with the variable's name, so that no name can be
//! misspelt. `None` is *nobody has a value*, `Some("")` *the task cleared it*. A value of the environment that is not
//! UTF-8 counts as none, with a warning (feature `tracing`).
//!
//! ```
//! use hermes_env_bridge::{Session, var};
//!
//! Session::new().chat_id("42").sync_scope(|| {
//!     assert_eq!(var::chat_id().as_deref(), Some("42"));
//!     assert_eq!(var::user_id().as_deref(), Some(""));
//! });
//! assert_eq!(var::chat_id(), None);
//! ```

use crate::names::each_variable;
use crate::session::get_or_warn;

macro_rules! reads {
    ($($kind:ident $field:ident $name:literal $doc:literal;)+) => {
        $(
        #[doc = concat!("Reads `", $name, "`: ", $doc, ".")]
        ///
        /// ```
        #[doc = concat!("let value = hermes_env_bridge::var::", stringify!($field), "();")]
        /// assert_eq!(value, None, "nothing is bound, and the environment does not have it");
        /// ```
        #[must_use]
        pub fn $field() -> Option<String> {
            get_or_warn($name)
        })+
    };
}
each_variable!(reads);
