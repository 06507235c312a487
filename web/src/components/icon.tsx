// Icons as paths in a square of 24; they say nothing to a screen reader: the button around one has a label.
const paths = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14M20 20l-4-4",
  menu: "M4 6h16M4 12h16M4 18h16",
  more: "M5 11.500v1M12 11.500v1M19 11.500v1",
  close: "M6 6l12 12M18 6L6 18",
  send: "M12 19V5M6 11l6-6l6 6",
  stop: "M7 7h10v10H7z",
  attach: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.700 4.700l-8.500 8.500a1.700 1.700 0 0 1-2.400-2.400L14.500 7",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  retry: "M20 11a8 8 0 1 0-2 6M20 5v6h-6",
  left: "M15 5l-7 7l7 7",
  right: "M9 5l7 7l-7 7",
  chat: "M4 5h16v11H10l-5 4v-4H4z",
  memory: "M6 4h12v16l-6-4l-6 4zM9.500 8.500h5",
  inbox: "M4 13l3-8h10l3 8v6H4zM4 13h5l1 3h4l1-3h5",
  shield: "M12 3l8 3v6c0 5-3.500 8-8 9c-4.500-1-8-4-8-9V6z",
  gauge: "M4 17a8 8 0 1 1 16 0M12 17l4-6",
  panel: "M4 5h16v14H4zM14 5v14",
  pin: "M9 4h6l-1 6l3 3H7l3-3zM12 13v7",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  never: "M12 4a8 8 0 1 0 0 16a8 8 0 0 0 0-16M6.500 6.500l11 11",
  undo: "M8 5L4 9l4 4M4 9h10a5 5 0 0 1 0 10h-3",
  check: "M5 13l4 4L19 7",
  fork: "M7 4v6c0 3 10 1 10 6v4M7 10v10",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
  tool: "M14 7a4 4 0 0 1 5-3l-2.500 2.500l1 1L20 5a4 4 0 0 1-5 5L8 18a2 2 0 0 1-3-3l8-6.500",
  user: "M12 4a4 4 0 1 0 0 8a4 4 0 0 0 0-8M4 20c1-4 4-6 8-6s7 2 8 6",
  down: "M12 5v14M6 13l6 6l6-6",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
