//! Random programs of tasks, threads, streams, sinks, callbacks, aborts, panics and verbs, run for real on a runtime of
//! several threads and in a plain model. `PROPTEST_CASES` says how many; `make test-long` runs ten thousand.

mod program;
mod real;
mod reference;

use std::cell::Cell;
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::program::program;
use crate::reference::{Seen, matches};

#[test]
fn every_program_sees_what_the_model_says() {
    // A program is drawn, and made smaller, by deep recursion.
    let thread = thread::Builder::new().stack_size(64 << 20).spawn(draw_and_run).unwrap();
    thread.join().unwrap();
}

fn draw_and_run() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let reads = Cell::new(0);
    let outcome = TestRunner::new(config).run(&program(), |steps| {
        let expected = reference::run(&steps);
        let seen = runtime.block_on(real::run(steps));
        reads.set(reads.get() + seen.iter().map(Seen::reads).sum::<usize>());
        prop_assert!(matches(&expected, &seen), "the model: {expected:#?}\nseen: {seen:#?}");
        Ok(())
    });
    outcome.unwrap();
    println!("{} reads", reads.get());
    assert!(reads.get() > 0);
}
