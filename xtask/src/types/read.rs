//! Reads types out of Rust sources: with `serde`'s attributes, or in the core's macros.

use anyhow::{Result, bail};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, Fields, GenericArgument, Ident, Item as RustItem, Lit, LitStr, Meta,
    PathArguments, Token, Type, Visibility, braced, parenthesized,
};

use super::item::{Body, Field, Items, Shape, Variant};

/// Adds the types of a source.
pub(super) fn add_items(text: &str, items: &mut Items) -> Result<()> {
    for item in syn::parse_file(text)?.items {
        match item {
            RustItem::Struct(item) => {
                let Fields::Named(fields) = &item.fields else { continue };
                let serde = Serde::of(&item.attrs);
                let mut list = Vec::new();
                for field in &fields.named {
                    list.extend(read_field(field, &serde, serde.is_derived)?);
                }
                items.add(item.ident.to_string(), docs(&item.attrs), Shape::Object(list));
            }
            RustItem::Enum(item) => {
                if let Some(shape) = read_enum(&item)? {
                    items.add(item.ident.to_string(), docs(&item.attrs), shape);
                }
            }
            RustItem::Macro(item) if item.mac.path.is_ident("objects") => {
                let Objects(objects) = item.mac.parse_body()?;
                for (name, docs, fields) in objects {
                    items.add(name, docs, Shape::Object(fields));
                }
            }
            RustItem::Macro(item)
                if item.mac.path.is_ident("bodies") || item.mac.path.is_ident("payloads") =>
            {
                let Bodies(bodies) = item.mac.parse_body()?;
                let name = if item.mac.path.is_ident("bodies") { "BlockBody" } else { "Payload" };
                items.add(name.to_owned(), Vec::new(), Shape::Bodies(bodies));
            }
            RustItem::Const(item) => {
                if let Expr::Lit(literal) = &*item.expr
                    && let Lit::Int(number) = &literal.lit
                {
                    items.add_constant(item.ident.to_string(), number.to_string());
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The attributes of `serde` that change what is on the wire.
#[derive(Default)]
struct Serde {
    is_derived: bool,
    rename: Option<String>,
    rename_all: Option<String>,
    rename_all_fields: Option<String>,
    is_tagged: bool,
    may_be_absent: bool,
    is_skipped: bool,
    is_flat: bool,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Self {
        let mut found = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident("derive") {
                let text = quote_text(attribute);
                found.is_derived |= text.contains("Serialize");
            }
            if !attribute.path().is_ident("serde") {
                continue;
            }
            let list: Result<Punctuated<Meta, Token![,]>, _> =
                attribute.parse_args_with(Punctuated::parse_terminated);
            for meta in list.into_iter().flatten() {
                found.add(&meta);
            }
        }
        found
    }

    fn add(&mut self, meta: &Meta) {
        let text = match meta {
            Meta::NameValue(pair) => match &pair.value {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        let path = meta.path();
        if path.is_ident("rename") {
            self.rename = text;
        } else if path.is_ident("rename_all") {
            self.rename_all = text;
        } else if path.is_ident("rename_all_fields") {
            self.rename_all_fields = text;
        } else if path.is_ident("tag") {
            self.is_tagged = true;
        } else if path.is_ident("skip_serializing_if") {
            self.may_be_absent = true;
        } else if path.is_ident("skip") {
            self.is_skipped = true;
        } else if path.is_ident("flatten") {
            self.is_flat = true;
        }
    }
}

fn quote_text(attribute: &Attribute) -> String {
    match &attribute.meta {
        Meta::List(list) => list.tokens.to_string(),
        _ => String::new(),
    }
}

/// Fields that hold what this version does not know, or stand for other fields.
const NOT_ON_THE_WIRE: &[&str] = &["extra", "body", "unknown_fields"];

/// Reads a field of a struct, which `serde` writes or our own code. Our own leaves out what is
/// empty.
fn read_field(field: &syn::Field, of: &Serde, is_derived: bool) -> Result<Option<Field>> {
    let serde = Serde::of(&field.attrs);
    let Some(ident) = &field.ident else { return Ok(None) };
    let name = ident.to_string();
    if serde.is_skipped || (!is_derived && NOT_ON_THE_WIRE.contains(&name.as_str())) {
        return Ok(None);
    }
    // A private field is written by nobody but its own type.
    if !is_derived && matches!(field.vis, Visibility::Inherited) {
        return Ok(None);
    }
    let (mut kind, is_nothing) = script_type(&field.ty)?;
    let is_option = is_named(&field.ty, "Option");
    let is_optional = if is_derived { serde.may_be_absent } else { is_nothing };
    if is_option && !is_optional {
        kind += " | null";
    }
    let is_camel = !is_derived
        || of.rename_all.as_deref() == Some("camelCase")
        || of.rename_all_fields.is_some();
    let wire = serde.rename.unwrap_or_else(|| if is_camel { camel(&name) } else { name });
    let docs = docs(&field.attrs);
    Ok(Some(Field { docs, name: wire, kind, is_optional, is_flat: serde.is_flat }))
}

fn read_enum(item: &syn::ItemEnum) -> Result<Option<Shape>> {
    let serde = Serde::of(&item.attrs);
    let name_of = |variant: &syn::Variant| {
        let own = Serde::of(&variant.attrs).rename;
        let ident = variant.ident.to_string();
        own.unwrap_or_else(|| match serde.rename_all.as_deref() {
            Some("camelCase") => camel(&snake(&ident)),
            Some("snake_case") | None => snake(&ident),
            Some(_) => ident,
        })
    };
    if item.variants.iter().all(|it| matches!(it.fields, Fields::Unit)) {
        return Ok(Some(Shape::Texts(item.variants.iter().map(name_of).collect())));
    }
    if serde.is_tagged {
        let mut variants = Vec::new();
        for variant in &item.variants {
            let mut fields = Vec::new();
            for field in &variant.fields {
                fields.extend(read_field(field, &serde, true)?);
            }
            let docs = docs(&variant.attrs);
            variants.push(Variant { docs, wire: name_of(variant), fields });
        }
        return Ok(Some(Shape::Tagged(variants)));
    }
    let mut bodies = Vec::new();
    for variant in item.variants.iter().filter(|it| it.ident != "Other") {
        let Fields::Unnamed(fields) = &variant.fields else { return Ok(None) };
        let Some(Type::Path(path)) = fields.unnamed.first().map(|it| &it.ty) else {
            return Ok(None);
        };
        let Some(of) = path.path.get_ident() else { return Ok(None) };
        let docs = docs(&variant.attrs);
        bodies.push(Body { docs, wire: name_of(variant), of: of.to_string() });
    }
    Ok(Some(Shape::Bodies(bodies)))
}

/// `objects! { … }`: structs whose fields have wire names.
struct Objects(Vec<(String, Vec<String>, Vec<Field>)>);

impl Parse for Objects {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut all = Vec::new();
        while !input.is_empty() {
            let attributes = input.call(Attribute::parse_outer)?;
            input.parse::<Visibility>()?;
            input.parse::<Token![struct]>()?;
            let name: Ident = input.parse()?;
            let content;
            braced!(content in input);
            let mut fields = Vec::new();
            while !content.is_empty() {
                let attributes = content.call(Attribute::parse_outer)?;
                content.parse::<Ident>()?;
                content.parse::<Token![:]>()?;
                let ty: Type = content.parse()?;
                content.parse::<Token![=]>()?;
                let wire: LitStr = content.parse()?;
                content.parse::<Token![,]>()?;
                let (kind, is_optional) =
                    script_type(&ty).map_err(|error| syn::Error::new(wire.span(), error))?;
                let (docs, name) = (docs(&attributes), wire.value());
                fields.push(Field { docs, name, kind, is_optional, is_flat: false });
            }
            all.push((name.to_string(), docs(&attributes), fields));
        }
        Ok(Self(all))
    }
}

/// `bodies! { Variant(Type) = "wire", … }`.
struct Bodies(Vec<Body>);

impl Parse for Bodies {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut all = Vec::new();
        while !input.is_empty() {
            let attributes = input.call(Attribute::parse_outer)?;
            input.parse::<Ident>()?;
            let content;
            parenthesized!(content in input);
            let of: Ident = content.parse()?;
            input.parse::<Token![=]>()?;
            let wire: LitStr = input.parse()?;
            input.parse::<Token![,]>()?;
            all.push(Body { docs: docs(&attributes), wire: wire.value(), of: of.to_string() });
        }
        Ok(Self(all))
    }
}

/// Returns a type in TypeScript, and whether our own objects leave its empty value out.
fn script_type(ty: &Type) -> Result<(String, bool)> {
    let Type::Path(path) = ty else {
        if let Type::Reference(reference) = ty {
            return script_type(&reference.elem);
        }
        // An array or a tuple: only types that are not on the wire have one.
        return Ok(("JsonValue".to_owned(), false));
    };
    let Some(last) = path.path.segments.last() else { bail!("a type without a name") };
    let inner = || -> Result<Vec<(String, bool)>> {
        let PathArguments::AngleBracketed(arguments) = &last.arguments else {
            return Ok(Vec::new());
        };
        let types = arguments.args.iter().filter_map(|it| match it {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        });
        types.map(script_type).collect()
    };
    let name = last.ident.to_string();
    Ok(match name.as_str() {
        "Option" => (inner()?.remove(0).0, true),
        "Vec" => (format!("readonly {}[]", parenthesized_union(inner()?.remove(0).0)), true),
        "Arc" | "Box" | "Cow" => inner()?.pop().unwrap_or_default(),
        "BTreeMap" | "HashMap" => {
            let value = inner()?.pop().unwrap_or_default().0;
            (format!("{{ readonly [name: string]: {value} }}"), false)
        }
        "bool" => ("boolean".to_owned(), true),
        "u8" | "u16" | "u32" | "u64" | "i64" | "usize" | "f64" => ("number".to_owned(), false),
        "str" | "String" | "Text" => ("string".to_owned(), false),
        "Json" => ("JsonValue".to_owned(), false),
        "Fields" => ("JsonObject".to_owned(), true),
        "Content" => ("string | readonly MessageContentPart[]".to_owned(), false),
        "Part" => ("MessageContentPart".to_owned(), false),
        "Placement" => ("string | null".to_owned(), true),
        "TextField" => ("TextField".to_owned(), true),
        "Block" => ("Block".to_owned(), false),
        "BTreeSet" | "Messages" | "Facts" | "Totals" => ("JsonValue".to_owned(), false),
        name if is_text(name) => ("string".to_owned(), false),
        name => (name.to_owned(), false),
    })
}

fn parenthesized_union(kind: String) -> String {
    if kind.contains('|') { format!("({kind})") } else { kind }
}

/// Returns whether a type is a newtype of text: an id, a hash.
fn is_text(name: &str) -> bool {
    name.ends_with("Id") || matches!(name, "ContentHash" | "CallKey" | "Timestamp")
}

fn is_named(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|it| it.ident == name))
}

fn docs(attributes: &[Attribute]) -> Vec<String> {
    let text = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    // Examples are Rust.
    attributes.iter().filter_map(text).take_while(|line| !line.starts_with("```")).collect()
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        text + &head.to_uppercase() + tail
    })
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
