import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";

// A page that the browser kept may show a session that has ended.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

const root = document.getElementById("root");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
