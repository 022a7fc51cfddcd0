//! The input that the user named: a path or standard input, and its format.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::anyhow;
use clap::Args;
use clap::builder::{
    NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser,
};
use threadfold_core::{BlockBody, Payload};
use threadfold_engine::{
    InputError, InputOptions, Pipe, PipeInput, open_one, read_found, read_pipe,
};
use threadfold_fold::{Agent, Detection, Fold, Step, detection_named, formats};

use crate::error::{CommandError, print_note, report_loss};
use crate::runtime::Waiter;
use crate::store::elsewhere;
use crate::view::{count, number};

/// Options that describe an input.
#[derive(Args, Clone)]
pub(crate) struct InputArgs {
    /// Read the input in this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    pub(crate) from: Option<Detection>,
    /// Read this session, if the input contains several
    #[arg(id = "input_session", long = "session", value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
}

impl InputArgs {
    pub(crate) fn options(&self) -> InputOptions<'_> {
        InputOptions { format: self.from, session: self.session.as_deref(), any: false }
    }

    /// Returns whether any option was set.
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

/// A folded input.
pub(crate) struct FoldedInput {
    pub(crate) fold: Fold,
    /// Its name in messages.
    pub(crate) name: String,
    /// It came from a pipe, so files beside it are not available.
    pub(crate) is_pipe: bool,
}

/// Folds a file, one agent's folder of sessions, or standard input for `-` or no argument.
pub(crate) fn fold_input(
    waiter: &Waiter,
    file: Option<&Path>,
    options: &InputOptions<'_>,
    mut observe: impl FnMut(&Step) + Send + 'static,
) -> Result<FoldedInput, CommandError> {
    let counted = Arc::new(Mutex::new(Understanding::default()));
    let counting = counted.clone();
    let observe = move |step: &Step| {
        counting.lock().unwrap_or_else(PoisonError::into_inner).add(step);
        observe(step);
    };
    let folded = fold_any(waiter, file, options, observe)?;
    let counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
    match options.session {
        Some(session) if counted.events == 0 => {
            let path = file.unwrap_or(Path::new("-")).to_owned();
            Err(InputError::Missing { path, session: session.to_owned() }.into())
        }
        _ => {
            counted.report(&folded, options);
            Ok(folded)
        }
    }
}

/// How much of an input was understood.
#[derive(Default)]
struct Understanding {
    records: usize,
    events: usize,
    /// Records that mean something to the converter.
    understood: usize,
    /// Records that are shown as they are.
    unknown: usize,
}

impl Understanding {
    fn add(&mut self, step: &Step) {
        let is_unknown = |payload: &Payload| match payload {
            Payload::BlockUpsert(upsert) => matches!(upsert.block.body, BlockBody::Unknown(_)),
            Payload::Log(_) => true,
            _ => false,
        };
        let is_declaration = step.line == 0 && step.events.is_empty();
        self.records += usize::from(!is_declaration);
        self.events += step.events.len();
        match step.events.iter().all(|event| is_unknown(&event.payload)) {
            true => self.unknown += usize::from(!step.events.is_empty()),
            false => self.understood += 1,
        }
    }

    /// Reports an input of which nothing was recognized or nothing is shown: the answer would look
    /// like that of an empty input, or of one that is corrupt.
    fn report(&self, folded: &FoldedInput, options: &InputOptions<'_>) {
        let FoldedInput { fold, name, .. } = folded;
        // An unterminated line may still be understood.
        if self.events == 0 && !fold.settling().is_empty() {
            return;
        }
        let detected = match fold.agent() {
            Some(agent) if !agent.is_known() => "is of an unknown agent, and".to_owned(),
            agent => {
                let title = agent.map_or("Threadfold's own events", Agent::title);
                let how = if options.format.is_some() { "read" } else { "detected" };
                format!("is {how} as {title}, but")
            }
        };
        let records = count(self.records, "record", "records");
        let (state, unknown) = (fold.conversation(), self.unknown as u64);
        let is_empty = state.blocks().is_empty() && state.subagents().is_empty();
        let found = match self.records {
            0 => "contains nothing to show".to_owned(),
            1 if self.understood == 0 && unknown == 1 => "its record was not recognized".to_owned(),
            _ if self.understood == 0 && unknown > 0 => {
                format!("{} of {records} were not recognized", number(unknown))
            }
            1 if is_empty => "its record shows nothing".to_owned(),
            _ if is_empty => format!("none of its {records} shows anything"),
            _ => return,
        };
        print_note(format_args!(
            "{name} {detected} {found}: `--from FORMAT` reads it as another format"
        ));
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
            let fold = waiter.wait(read_found(&found, elsewhere(), observe))?;
            found.content.losses().iter().for_each(report_loss);
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
                let fold = read_pipe(&input, pipe, elsewhere(), observe).await?;
                input.loss().iter().for_each(report_loss);
                Ok::<_, CommandError>(fold)
            })?;
            Ok(FoldedInput { fold, name: "standard input".to_owned(), is_pipe: true })
        }
    }
}

/// Reports an input of an unknown agent.
pub(crate) fn report_unknown(name: &str) {
    print_note(format_args!("{name} is not in a format of a known agent: it is read line by line"));
}

/// Reads the beginning of standard input.
pub(crate) async fn recognize_stdin(
    options: &InputOptions<'_>,
) -> Result<(PipeInput, Pipe), CommandError> {
    let mut pipe = Pipe::blocking(io::stdin());
    let input = pipe.recognize_format(options).await?;
    Ok((input, pipe))
}
