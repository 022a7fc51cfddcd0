//! Edge cases that real agents produce.

use insta::assert_snapshot;
use threadfold_core::{ConversationState, Outcome};
use threadfold_testkit::story::{events, play, state};

#[test]
fn a_delta_before_its_block_is_ignored_with_an_anomaly() {
    assert_snapshot!(play("a+=lo"), @"! block `a` does not exist");
}

#[test]
fn a_block_in_an_unknown_conversation_creates_a_running_subagent() {
    assert_snapshot!(play("@ghost say a hello"), @r#"
    [ghost running]
      a assistant_text "hello"
    "#);
}

#[test]
fn an_empty_delta_changes_nothing() {
    assert_snapshot!(play("start a hi; a+="), @r#"a assistant_text pending "hi""#);
    for story in ["start a hi", "start a h; a+=i", "tool a Bash; input a {"] {
        let empty = if story.contains("tool") { "input a" } else { "a+=" };
        let mut state = state(story);
        assert_eq!(state.apply(&events(empty)[0]), Outcome::Unchanged, "after `{story}`");
    }
}

#[test]
fn a_delta_to_a_missing_text_field_is_ignored_with_an_anomaly() {
    assert_snapshot!(play("tool c Bash; c+=x; say a hi; input a {"), @r#"
    c tool_use pending "Bash"
    a assistant_text "hi"
    ! block `c` has no text field `content` to append to
    ! block `a` has no text field `input` to append to
    "#);
}

#[test]
fn idle_closes_all_pending_blocks_as_interrupted() {
    assert_snapshot!(play("start a one; tool c Bash; say b done; start d two; idle"), @r#"
    a assistant_text interrupted "one"
    c tool_use interrupted "Bash"
    b assistant_text "done"
    d assistant_text interrupted "two"
    "#);
}

#[test]
fn idle_is_idempotent() {
    assert_eq!(play("start a one; idle"), play("start a one; idle; idle"));
}

#[test]
fn an_upsert_after_idle_wins() {
    assert_snapshot!(play("start a one; idle; say a one and more"), @r#"a assistant_text "one and more""#);
    assert_snapshot!(play("file start a one; file idle; stream say a one"), @r#"a assistant_text "one""#);
}

#[test]
fn a_second_spawn_fills_in_missing_fields() {
    assert_snapshot!(play("spawn c; spawn c agent=A prompt=look type=explorer; spawn c prompt=other"), @r#"
    c subagent running "look -> "
    [A call c running] "look"
    "#);
}

#[test]
fn a_completion_before_its_spawn_is_merged_with_it() {
    assert_snapshot!(play("done c output=found; spawn c agent=A prompt=look"), @r#"
    c subagent success "look -> found"
    [A call c success] "look" -> "found"
    "#);
}

#[test]
fn a_tool_use_id_takes_precedence_over_an_equal_agent_id() {
    assert_snapshot!(play("spawn c agent=x; spawn x agent=B; @x say a hello"), @r#"
    c subagent running " -> "
    x subagent running " -> "
    [x call c running]
    [B call x running]
      a assistant_text "hello"
    "#);
    let shadowed = state("spawn c agent=x; spawn x agent=B");
    let names: Vec<_> =
        shadowed.subagents().iter().map(|it| it.conversation_id().to_string()).collect();
    assert_eq!(
        names,
        ["c", "B"],
        "the one that lost its name to a call is shown under its own call"
    );
}

#[test]
fn a_nested_subagent_is_in_the_flat_list_and_its_block_with_its_caller() {
    assert_snapshot!(play("spawn a agent=A; @A spawn b agent=B; @B say x deep; spawn c agent=C"), @r#"
    a subagent running " -> "
    c subagent running " -> "
    [A call a running]
      b subagent running " -> "
    [B call b running]
      x assistant_text "deep"
    [C call c running]
    "#);
}

#[test]
fn an_agent_called_twice_is_one_subagent_with_two_edges() {
    assert_snapshot!(
        play("spawn c agent=A prompt=one; done c output=1; spawn d agent=A prompt=two; @d say x hello"),
        @r#"
    c subagent success "one -> 1"
    d subagent running "two -> "
    [A call d running] "two" runs c, d
      x assistant_text "hello"
    "#
    );
}

#[test]
fn a_delta_with_an_offset_is_idempotent() {
    assert_snapshot!(play("start a; a+=hel@0; a+=hel@0; a+=ello@1; a+=lo@3"), @r#"a assistant_text pending "hello""#);
}

#[test]
fn a_delta_that_contradicts_existing_text_is_ignored_with_an_anomaly() {
    assert_snapshot!(play("start a hello; a+=HELLO!@0; a+=lo!@3; a+=!?@5; a+=?!@5"), @r#"
    a assistant_text pending "hello!?"
    ! the delta at offset 0 differs from the text that block `a` already has
    ! the delta at offset 5 differs from the text that block `a` already has
    "#);
}

#[test]
fn a_delta_after_a_gap_is_ignored_with_an_anomaly() {
    assert_snapshot!(play("start a hel; a+=o@4"), @r#"
    a assistant_text pending "hel"
    ! block `a` has 3 bytes of text, but the delta starts at offset 4
    "#);
}

#[test]
fn a_delta_that_splits_a_character_is_ignored_with_an_anomaly() {
    assert_snapshot!(play("start a ab; a+=é@1"), @r#"
    a assistant_text pending "ab"
    ! offset 1 of block `a` is not on a character boundary
    "#);
}

#[test]
fn an_upsert_that_changes_the_type_replaces_the_block_with_an_anomaly() {
    assert_snapshot!(play("say a hello; think a hm"), @r#"
    a thinking "hm"
    ? block `a` changed its type from `assistant_text` to `thinking`
    "#);
}

#[test]
fn a_delta_to_a_removed_block_is_ignored_with_an_anomaly() {
    assert_snapshot!(play("start a hi; remove a; a+=x; remove a"), @"
    ! block `a` does not exist
    ! block `a` does not exist
    ");
}

#[test]
fn a_prompt_only_in_the_transcript_precedes_the_answer_from_the_stream() {
    assert_snapshot!(play("stream say a hello after=-; file prompt u hi after=-"), @r#"
    u user_message "hi"
    a assistant_text "hello"
    "#);
    assert_snapshot!(
        play("stream say a hello after=-; file prompt u hi after=-; file say a hello after=u"),
        @r#"
    u user_message "hi"
    a assistant_text "hello"
    "#
    );
}

#[test]
fn a_stream_record_after_the_transcript_fills_only_missing_fields() {
    assert_snapshot!(play("file think a; stream think a words; file say b file; stream say b stream"), @r#"
    a thinking "words"
    b assistant_text "file"
    "#);
}

#[test]
fn merging_two_subagents_does_not_duplicate_blocks() {
    assert_snapshot!(
        play(
            "@c say x one; @c say y two; @A say y two; @A say z three; spawn c agent=A prompt=p"
        ),
        @r#"
    c subagent running "p -> "
    [A call c running] "p"
      x assistant_text "one"
      y assistant_text "two"
      z assistant_text "three"
    "#
    );
}

#[test]
fn a_block_of_both_merged_subagents_has_the_later_content() {
    assert_snapshot!(play("@c say y one; @A say y one and more; spawn c agent=A"), @r#"
    c subagent running " -> "
    [A call c running]
      y assistant_text "one and more"
    "#);
}

#[test]
fn blocks_after_a_rewind_stay_and_become_inactive() {
    assert_snapshot!(play("prompt u1 a; say a1 b; prompt u2 c; say a2 d; rewind a1; prompt u3 e"), @r#"
    u1 user_message "a"
    a1 assistant_text "b"
    u2 user_message inactive "c"
    a2 assistant_text inactive "d"
    u3 user_message "e"
    "#);
}

#[test]
fn returning_to_a_branch_reactivates_it() {
    assert_snapshot!(
        play("prompt u1 a; say a1 b; prompt u2 c; say a2 d; rewind a1; prompt u3 e; rewind a2"),
        @r#"
    u1 user_message "a"
    a1 assistant_text "b"
    u2 user_message "c"
    a2 assistant_text "d"
    u3 user_message inactive "e"
    "#
    );
}

#[test]
fn blocks_before_a_compaction_stay_and_become_inactive() {
    assert_snapshot!(play("prompt u1 a; say a1 b; compaction; prompt u2 c; compaction u2; say a2 d"), @r#"
    u1 user_message inactive "a"
    a1 assistant_text inactive "b"
    u2 user_message "c"
    a2 assistant_text "d"
    "#);
}

#[test]
fn an_unknown_head_is_ignored_with_an_anomaly() {
    assert_snapshot!(play("say a hi; rewind nowhere; @ghost rewind; @ghost idle"), @r#"
    a assistant_text "hi"
    ! block `nowhere` does not exist
    ! conversation `ghost` does not exist
    ! conversation `ghost` does not exist
    "#);
}

/// All states of a session share one index of ids, so each must see its own blocks in it only.
#[test]
fn states_that_diverge_find_their_own_blocks_only() {
    let story = |of: &str, count: usize| -> Vec<_> {
        (0..count).flat_map(|it| events(&format!("say {of}{it} words"))).collect()
    };
    let mut base = ConversationState::default();
    base.extend(&story("b", 40));
    let (mut left, mut right) = (base.clone(), base.clone());
    left.extend(&story("l", 40));
    right.extend(&story("r", 40));
    right.extend(&events("remove b7; stream say b3 words after=b20"));

    let at = |state: &ConversationState, id: &str| state.blocks().position(&id.into());
    assert_eq!(["b7", "l0", "r0"].map(|id| at(&base, id)), [Some(7), None, None]);
    assert_eq!(["b7", "l0", "r0"].map(|id| at(&left, id)), [Some(7), Some(40), None]);
    assert_eq!(["b7", "l0", "r0"].map(|id| at(&right, id)), [None, None, Some(39)]);
    assert_eq!(["b3", "b20"].map(|id| at(&left, id)), [Some(3), Some(20)]);
    for state in [&base, &left, &right] {
        for (position, block) in state.blocks().iter().enumerate() {
            assert_eq!(state.blocks().position(&block.id), Some(position), "{}", block.id);
        }
    }
}
