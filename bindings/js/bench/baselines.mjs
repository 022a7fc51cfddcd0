// Two reducers in plain JavaScript to compare with.

/** (c) Copies with spread, as the older system had it. */
export function spreadReduce(state, event) {
  switch (event.type) {
    case "block:upsert": {
      const { block } = event.payload;
      const at = state.blocks.findIndex((it) => it.id === block.id);
      if (at < 0) return { ...state, blocks: [...state.blocks, block] };
      return { ...state, blocks: state.blocks.map((it, index) => (index === at ? { ...it, ...block } : it)) };
    }
    case "block:delta": {
      const { blockId, delta } = event.payload;
      return {
        ...state,
        blocks: state.blocks.map((it) => (it.id === blockId ? { ...it, content: it.content + delta } : it)),
      };
    }
    default:
      return state;
  }
}

/** (d) Changes one list in place, with an index. */
export class MutableReducer {
  blocks = [];
  #index = new Map();

  apply(event) {
    const { payload } = event;
    if (event.type === "block:delta") {
      const block = this.#index.get(payload.blockId);
      if (block !== undefined) block.content += payload.delta;
    } else if (event.type === "block:upsert") {
      const known = this.#index.get(payload.block.id);
      if (known !== undefined) Object.assign(known, payload.block);
      else {
        const block = { ...payload.block };
        this.#index.set(block.id, block);
        this.blocks.push(block);
      }
    }
  }
}
