//! What a person gave as input: a path or standard input, and in which format.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;
use clap::Args;
use clap::builder::{
    NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser,
};
use threadfold_engine::{
    InputError, InputOptions, Pipe, PipeInput, open_one, read_found, read_pipe,
};
use threadfold_fold::{Detection, Fold, Step, detection_named, formats};

use crate::error::{CommandError, say};
use crate::runtime::Waiter;

/// What a person says about an input.
#[derive(Args, Clone)]
pub(crate) struct InputArgs {
    /// Read the input in this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    pub(crate) from: Option<Detection>,
    /// Read this session, where the input holds several
    #[arg(id = "input_session", long = "session", value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
}

impl InputArgs {
    pub(crate) fn options(&self) -> InputOptions<'_> {
        InputOptions { format: self.from, session: self.session.as_deref(), any: false }
    }

    /// Says whether a person said anything.
    pub(crate) fn is_given(&self) -> bool {
        self.from.is_some() || self.session.is_some()
    }
}

/// Returns a parser for the names of formats, with their help.
pub(crate) fn format_parser() -> impl TypedValueParser<Value = Detection> {
    let values = formats().map(|it| PossibleValue::new(it.format.name).help(it.format.help));
    PossibleValuesParser::new(values)
        .map(|name| detection_named(&name).unwrap_or_else(Detection::unknown))
}

/// An input that was folded.
pub(crate) struct FoldedInput {
    pub(crate) fold: Fold,
    /// What it is called in messages.
    pub(crate) name: String,
    /// It came through a pipe, so that files beside it cannot be seen.
    pub(crate) is_pipe: bool,
}

/// Folds a file, a folder that one agent keeps sessions in, or standard input for `-` or nothing.
pub(crate) fn fold_input(
    waiter: &Waiter,
    file: Option<&Path>,
    options: &InputOptions<'_>,
    mut observe: impl FnMut(&Step) + Send + 'static,
) -> Result<FoldedInput, CommandError> {
    let events = Arc::new(AtomicUsize::new(0));
    let counter = events.clone();
    let observe = move |step: &Step| {
        counter.fetch_add(step.events.len(), Ordering::Relaxed);
        observe(step);
    };
    let folded = fold_any(waiter, file, options, observe)?;
    match options.session {
        Some(session) if events.load(Ordering::Relaxed) == 0 => {
            let path = file.unwrap_or(Path::new("-")).to_owned();
            Err(InputError::Missing { path, session: session.to_owned() }.into())
        }
        _ => Ok(folded),
    }
}

fn fold_any(
    waiter: &Waiter,
    file: Option<&Path>,
    options: &InputOptions<'_>,
    observe: impl FnMut(&Step) + Send + 'static,
) -> Result<FoldedInput, CommandError> {
    match file.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let found = open_one(path, options)?;
            if found.agent.is_some_and(|agent| !agent.is_known()) {
                report_unknown(&format!("`{}`", path.display()));
            }
            let fold = waiter.wait(read_found(&found, observe))?;
            Ok(FoldedInput { fold, name: format!("`{}`", path.display()), is_pipe: false })
        }
        None => {
            if file.is_none() && io::stdin().is_terminal() {
                return Err(CommandError::new(
                    anyhow!("no file was given, and standard input is a terminal"),
                    "give a file, pipe one in, or give `-` to type lines",
                ));
            }
            let fold = waiter.wait(async {
                let (input, pipe) = recognize_stdin(options).await?;
                if !input.input.is_known() {
                    report_unknown("standard input");
                }
                Ok::<_, CommandError>(read_pipe(&input, pipe, observe).await?)
            })?;
            Ok(FoldedInput { fold, name: "standard input".to_owned(), is_pipe: true })
        }
    }
}

/// Reports an input that no known agent wrote.
pub(crate) fn report_unknown(name: &str) {
    say(format_args!("{name} is in no format of a known agent: every line is kept as it is"));
}

/// Reads the beginning of standard input.
pub(crate) async fn recognize_stdin(
    options: &InputOptions<'_>,
) -> Result<(PipeInput, Pipe), CommandError> {
    let mut pipe = Pipe::blocking(io::stdin());
    let input = pipe.recognize_format(options).await?;
    Ok((input, pipe))
}
