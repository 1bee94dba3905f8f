//! The example of a gateway does what it says.

#[path = "../examples/telegram_gateway.rs"]
#[allow(dead_code, unreachable_pub)]
mod telegram_gateway;

/// Phase 3: the task-local path works without the current message being passed through every helper.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn phase_3_two_chats_at_once_and_each_tool_finds_its_own() {
    let sent = telegram_gateway::serve().await;
    let of = |chat: &str| -> Vec<&str> { sent.iter().filter_map(|line| line.strip_prefix(chat)).collect() };
    assert_eq!(of("chat 1: "), ["re 10: hello", "media/1/last.png is a cat", "file report.pdf", "re 10: bye"]);
    assert_eq!(of("chat 2: "), ["re 20: hi", "media/2/last.png is a cat", "re 20: no files for you", "re 20: thanks"]);
    assert_eq!(sent.len(), 8);
}
