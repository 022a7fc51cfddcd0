//! A run that is stopped while its tools run: what does not start any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use threadfold_core::{CallId, CallState};
use threadfold_loop::{AgentLoop, Effect, Limits, LoopError, Probe, RenderedPrompt, Resume, tool};
use threadfold_store::Store;
use tokio_util::sync::CancellationToken;

use crate::calls::until;
use crate::resuming::killed_after_start;
use crate::support::{CountingTool, Model, agent_loop, answer_calls, answer_text, store, turns};

/// Returns a tool that stops the run.
fn stopper(name: &'static str, cancel: &CancellationToken) -> Arc<CountingTool> {
    let cancel = cancel.clone();
    let stop = move |_: &str, _: &threadfold_loop::ToolContext| {
        cancel.cancel();
        Ok("stopped".into())
    };
    CountingTool::doing(name, Effect::Unsafe, Box::new(stop))
}

fn one_by_one(agent_loop: AgentLoop) -> AgentLoop {
    agent_loop.limits(Limits { parallel: 1, ..Limits::default() })
}

async fn state_of(store: &Arc<dyn Store>, call: &str) -> CallState {
    turns(store, "s1").await.call(&CallId::from(call)).unwrap().state.clone()
}

#[tokio::test]
async fn waiting_calls_do_not_start_after_a_stop_and_run_on_resume() {
    let store = store();
    let cancel = CancellationToken::new();
    let calls = [("c1", "one", "{}"), ("c2", "two", "{}"), ("c3", "three", "{}")];
    let model = Model::new(vec![answer_calls(&calls), answer_text("done")]);
    let one = stopper("one", &cancel);
    let (two, three) =
        (CountingTool::new("two", Effect::Unsafe), CountingTool::new("three", Effect::Unsafe));
    let agent_loop = one_by_one(agent_loop(&store, &model)).tools([
        one.clone() as Arc<_>,
        two.clone() as _,
        three.clone() as _,
    ]);
    let counts = || (one.count(), two.count(), three.count());

    let stopped = agent_loop.clone().cancel(cancel);
    let error = stopped.run(&"s1".into(), &RenderedPrompt::text("Go")).await.unwrap_err();
    assert!(matches!(error, LoopError::Cancelled), "{error:?}");
    assert_eq!(counts(), (1, 0, 0));
    assert_eq!(state_of(&store, "c2").await, CallState::Requested);

    let finished = agent_loop.resume(&"s1".into(), Resume::default()).await.unwrap();
    assert_eq!((finished.text().as_str(), counts()), ("done", (1, 1, 1)));
}

#[tokio::test]
async fn a_stop_during_a_probe_or_undo_needs_no_decision() {
    for effect in [Effect::Probe, Effect::Compensable] {
        let store = store();
        let cancel = CancellationToken::new();
        let model = Model::new(vec![answer_calls(&[]), answer_text("done")]);
        let ran = Arc::new(AtomicUsize::new(0));
        let deed = |stop: Option<CancellationToken>| {
            let (ran, other) = (ran.clone(), stop.clone());
            let deed = tool("deed", "A deed", move |_: Value, _| {
                ran.fetch_add(1, Ordering::SeqCst);
                async { Ok("done".into()) }
            });
            match effect {
                Effect::Probe => deed.probe(move |_, _| {
                    if let Some(stop) = &stop {
                        stop.cancel();
                    }
                    async { Ok(Probe::DidNotHappen) }
                }),
                _ => deed.undo(move |_, _| {
                    if let Some(stop) = &other {
                        stop.cancel();
                    }
                    async { Ok(()) }
                }),
            }
        };
        let begun = agent_loop(&store, &model).tool(deed(None));
        killed_after_start(&begun, &store, &[("c1", effect)]).await;

        let stopped = agent_loop(&store, &model).tool(deed(Some(cancel.clone()))).cancel(cancel);
        let error = stopped.resume(&"s1".into(), Resume::default()).await.unwrap_err();
        assert!(matches!(error, LoopError::Cancelled), "{effect:?}: {error:?}");
        assert_eq!(ran.load(Ordering::SeqCst), 0, "{effect:?}");
        assert_eq!(state_of(&store, "c1").await, CallState::Started, "{effect:?}");

        begun.resume(&"s1".into(), Resume::default()).await.unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1, "{effect:?}");
    }
}

#[tokio::test]
async fn dropping_a_run_cancels_and_aborts_its_tools() {
    /// Cancels a token when it is dropped.
    struct CancelOnDrop(CancellationToken);
    impl Drop for CancelOnDrop {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }

    let store = store();
    let model = Model::new(vec![answer_calls(&[("c1", "hang", "{}")]), answer_text("done")]);
    let (begun, broken_off) = (CancellationToken::new(), CancellationToken::new());
    let output = Arc::new(std::sync::Mutex::new(None));
    let (is_begun, gone, context_of) = (begun.clone(), broken_off.clone(), output.clone());
    let hang = tool("hang", "Hangs", move |_: Value, context: threadfold_loop::ToolContext| {
        let gone = CancelOnDrop(gone.clone());
        *context_of.lock().unwrap() = Some(context.cancel);
        is_begun.cancel();
        async move {
            let _gone = gone;
            std::future::pending::<Result<_, threadfold_loop::ToolError>>().await
        }
    });
    let agent_loop = agent_loop(&store, &model).tool(hang);
    let (session, prompt) = ("s1".into(), RenderedPrompt::text("Go"));
    tokio::select! {
        finished = agent_loop.run(&session, &prompt) => panic!("{finished:?}"),
        () = begun.cancelled() => {}
    }
    until(|| broken_off.is_cancelled()).await;
    assert!(output.lock().unwrap().as_ref().unwrap().is_cancelled());
    assert_eq!(state_of(&store, "c1").await, CallState::Started);
    // An aborted tool may continue for a moment, so nobody takes over before the lease expires.
    let early = agent_loop.resume(&session, Resume::default()).await.unwrap_err();
    assert!(matches!(early, LoopError::Held { .. }), "{early:?}");
}
