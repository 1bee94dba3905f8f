//! A program whose allocator asks whose memory it is, on each allocation and release.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hermes_env_bridge::{Context, Session, clear_session_vars, set_current_session_id, set_session_vars, var};

thread_local! {
    static ASKING: Cell<bool> = const { Cell::new(true) };
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

struct Tracking;

fn ask() {
    if !ASKING.replace(true) {
        let _ = Context::current();
        ASKED.set(ASKED.get() + 1);
        ASKING.set(false);
    }
}

// SAFETY: it is the system's; `ask` leaves both what it is given and what it returns alone.
#[allow(unsafe_code, reason = "an allocator cannot be written without")]
unsafe impl GlobalAlloc for Tracking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ask();
        // SAFETY: the caller's promises are those that the system asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ask();
        // SAFETY: as above; `pointer` came from the system.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static TRACKING: Tracking = Tracking;

#[test]
fn an_allocator_can_ask_for_the_context_while_a_verb_changes_it() {
    let _ = Context::unbound();
    ASKING.set(false);
    let seen = Session::new().chat_id("1").sync_scope(|| {
        Context::current().sync_scope(|| {
            set_session_vars(Session::new().chat_id("2").cwd("/")).unwrap();
            set_session_vars(Session::new().chat_id("3")).unwrap();
            set_current_session_id("two").unwrap();
            let seen = (var::chat_id(), var::session_id());
            clear_session_vars().unwrap();
            seen
        })
    });
    ASKING.set(true);
    assert_eq!(seen, (Some("3".to_owned()), Some("two".to_owned())));
    assert!(ASKED.get() > 10);
}
