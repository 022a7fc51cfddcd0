// Icons, drawn here: one stroke, one size.

const PATHS = {
  shell: "M4 5l4 4-4 4M10 14h6",
  read: "M5 3h7l3 3v11H5zM8 9h4M8 12h4",
  edit: "M4 16l1-4 8-8 3 3-8 8zM11 6l3 3",
  search: "M9 4a5 5 0 100 10A5 5 0 009 4zM13 13l4 4",
  web: "M10 3a7 7 0 100 14 7 7 0 000-14zM3 10h14M10 3c3 4 3 10 0 14M10 3c-3 4-3 10 0 14",
  list: "M4 6l1.5 1.5L8 5M11 6h5M4 13l1.5 1.5L8 12M11 13h5",
  question: "M7.5 7.5a2.5 2.5 0 113.5 2.3c-.7.4-1 .8-1 1.7M10 14.5v.01",
  other: "M10 3v4M10 13v4M3 10h4M13 10h4M5.5 5.5l2 2M12.5 12.5l2 2M14.5 5.5l-2 2M7.5 12.5l-2 2",
  agent: "M6 4v6a4 4 0 004 4h5M12 11l3 3-3 3M6 4a1 1 0 100-.01",
  user: "M10 10a3 3 0 100-6 3 3 0 000 6zM4 17c.5-3.5 3-5 6-5s5.500 1.500 6 5",
  chevron: "M8 5l5 5-5 5",
  copy: "M7 7h9v10H7zM4 13V3h9",
  link: "M8 12a3 3 0 004.200 0l2.600-2.600a3 3 0 00-4.200-4.200L9.500 6.300M12 8a3 3 0 00-4.200 0L5.200 10.600a3 3 0 004.200 4.200l1.100-1.100",
  check: "M4 10l4 4 8-9",
  cross: "M5 5l10 10M15 5L5 15",
  stop: "M6 6h8v8H6z",
  hand: "M7 10V5a1 1 0 012 0v4-5a1 1 0 012 0v5-4a1 1 0 012 0v6c0 3-1.500 6-5 6-2.500 0-4-2-5-5l1-1z",
  fold: "M3 10h14M6 5l4 3 4-3M6 15l4-3 4 3",
  clock: "M10 4a6 6 0 100 12 6 6 0 000-12zM10 7v3l2 2",
  play: "M7 5l8 5-8 5z",
  pause: "M7 5v10M13 5v10",
  back: "M12 5l-5 5 5 5",
  home: "M4 9l6-5 6 5v7H4z",
  theme: "M10 3a7 7 0 100 14V3z",
  warn: "M10 4l7 12H3zM10 9v3M10 14v.01",
  down: "M10 4v11M5 10l5 5 5-5",
  thought: "M10 4c4 0 6 2 6 4.500S14 13 10 13c-.700 0-1.300-.100-2-.200L5 15v-3c-1-.800-1-2-1-3.500C4 6 6 4 10 4z",
  open: "M8 4H4v12h12v-4M11 4h5v5M16 4l-7 7",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, className = "" }: { name: IconName; className?: string }) {
  return (
    <svg className={`icon ${className}`} viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
