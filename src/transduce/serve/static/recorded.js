// The page of one recorded sentence: no server, no request.

import { AttendView } from "./attend.js";
import { attendLink } from "./attend_link.js";
import { element } from "./dom.js";
import { linkWriter, readLink } from "./link.js";

const view = new AttendView({ onstate: linkWriter("attend", attendLink.write) });
document
  .getElementById("page")
  .append(
    element(
      "header",
      { class: "top" },
      element("p", { class: "brand" }, "transduce"),
      element("p", { class: "quiet" }, "A recorded sentence"),
    ),
    element("main", {}, element("h1", { class: "unseen" }, "How one sentence was translated"), view.node),
  );
view.show(JSON.parse(document.getElementById("record").textContent), attendLink.read(readLink().parameters));
