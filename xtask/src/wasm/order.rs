//! Sorts the functions of a module by their names, and removes the names.
//!
//! Instances of one generic function have names that begin alike and bytes that are alike, but the
//! linker leaves them wherever they were first used, and `gzip` looks back 32 KB only. Sorted, a
//! module is a tenth smaller after compression, and does the same.

use anyhow::{Context, Result};
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{CodeSection, FunctionSection, Module};
use wasmparser::{
    CodeSectionReader, CustomSectionReader, FunctionSectionReader, KnownCustom, Name, Parser,
    Payload,
};

/// Returns the module with its functions in the order of their names, and without names.
pub(super) fn sort_functions(bytes: &[u8]) -> Result<Vec<u8>> {
    let names = function_names(bytes)?;
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|function| names[*function]);
    let mut places = vec![0; order.len()];
    for (place, function) in order.iter().enumerate() {
        places[*function] = u32::try_from(place)?;
    }
    let mut module = Module::new();
    SortedFunctions { order, places }
        .parse_core_module(&mut module, Parser::new(0), bytes)
        .map_err(|error| anyhow::anyhow!("the module cannot be written again: {error}"))?;
    Ok(module.finish())
}

/// Returns the name of each function. A module of ours imports none, so they are numbered from 0.
fn function_names(bytes: &[u8]) -> Result<Vec<&str>> {
    let (mut count, mut found) = (0, Vec::new());
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::ImportSection(_) => anyhow::bail!("the module has imports"),
            Payload::FunctionSection(section) => count = section.count() as usize,
            Payload::CustomSection(section) => {
                let KnownCustom::Name(names) = section.as_known() else { continue };
                for name in names {
                    let Name::Function(functions) = name? else { continue };
                    for naming in functions {
                        let naming = naming?;
                        found.push((naming.index as usize, naming.name));
                    }
                }
            }
            _ => {}
        }
    }
    let mut names = vec![""; count];
    for (function, name) in found {
        *names.get_mut(function).context("a name of no function")? = name;
    }
    Ok(names)
}

/// Writes a module again, with its functions in another order.
struct SortedFunctions {
    /// The functions in their new order.
    order: Vec<usize>,
    /// The place of each function in that order.
    places: Vec<u32>,
}

impl Reencode for SortedFunctions {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, function: u32) -> u32 {
        self.places[function as usize]
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        let types = section.into_iter().collect::<Result<Vec<_>, _>>()?;
        for function in &self.order {
            functions.function(types[*function]);
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        let bodies = section.into_iter().collect::<Result<Vec<_>, _>>()?;
        for function in self.order.clone() {
            self.parse_function_body(code, bodies[function].clone())?;
        }
        Ok(())
    }

    fn parse_custom_section(
        &mut self,
        _: &mut Module,
        _: CustomSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{
        ExportKind, ExportSection, Function, Instruction, NameMap, NameSection, TypeSection,
        ValType,
    };

    use super::*;

    /// Returns a module of functions that return a number each, and `sum`, which calls them.
    fn module(numbers: &[(&str, i32)]) -> Vec<u8> {
        let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
        let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
        let (mut names, mut map) = (NameSection::new(), NameMap::new());
        types.ty().function([], [ValType::I32]);
        let mut sum = Function::new([]);
        sum.instruction(&Instruction::I32Const(0));
        for (index, (name, number)) in numbers.iter().enumerate() {
            functions.function(0);
            exports.export(name, ExportKind::Func, index as u32);
            map.append(index as u32, name);
            let mut body = Function::new([]);
            body.instruction(&Instruction::I32Const(*number)).instruction(&Instruction::End);
            code.function(&body);
            sum.instruction(&Instruction::Call(index as u32)).instruction(&Instruction::I32Add);
        }
        sum.instruction(&Instruction::End);
        functions.function(0);
        code.function(&sum);
        map.append(numbers.len() as u32, "a sum");
        exports.export("sum", ExportKind::Func, numbers.len() as u32);
        names.functions(&map);
        let mut module = Module::new();
        module.section(&types).section(&functions).section(&exports).section(&code).section(&names);
        module.finish()
    }

    /// Returns what the body of an export is, without the numbers of functions.
    fn exported(bytes: &[u8], name: &str) -> Vec<String> {
        let (mut index, mut bodies) = (None, Vec::new());
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.unwrap() {
                Payload::ExportSection(section) => {
                    let found = section.into_iter().find(|it| it.as_ref().unwrap().name == name);
                    index = found.map(|it| it.unwrap().index as usize);
                }
                Payload::CodeSectionEntry(body) => {
                    let operators = body.get_operators_reader().unwrap();
                    bodies.push(
                        operators.into_iter().map(|it| format!("{:?}", it.unwrap())).collect(),
                    );
                }
                Payload::CustomSection(section) => panic!("{} is left", section.name()),
                _ => {}
            }
        }
        bodies.swap_remove(index.unwrap())
    }

    #[test]
    fn functions_are_sorted_and_keep_their_names_for_the_host() {
        let sorted = sort_functions(&module(&[("c", 3), ("b", 2), ("d", 4)])).unwrap();
        for (name, number) in [("b", 2), ("c", 3), ("d", 4)] {
            assert_eq!(exported(&sorted, name)[0], format!("I32Const {{ value: {number} }}"));
        }
        // `a sum` is the first now, then `b`, `c` and `d`: it calls them as before.
        let calls: Vec<_> =
            exported(&sorted, "sum").into_iter().filter(|it| it.starts_with("Call")).collect();
        let call = |index: u32| format!("Call {{ function_index: {index} }}");
        assert_eq!(calls, [call(2), call(1), call(3)]);
    }
}
