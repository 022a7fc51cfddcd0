// What a screen reader is told: the end of an answer, and not each of its words.

let region: HTMLElement | undefined;

export function announce(text: string): void {
  if (region === undefined) {
    region = document.createElement("div");
    region.className = "unseen";
    region.setAttribute("role", "status");
    region.setAttribute("aria-live", "polite");
    document.body.append(region);
  }
  region.textContent = text;
}
